"""Which addresses may be connected to."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.wire.addresses import AddressPolicy

DENIED = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "168.63.129.16/32",
    "::/96",
    "::1/128",
    "::ffff:127.0.0.0/104",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/32",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "168.63.129.17",
    "172.15.255.255",
    "172.32.0.0",
    "223.255.255.255",
    "2606:4700::1",
    "2a00:1450::1",
    "2001:4860::8888",
    "::ffff:8.8.8.8",
]


@pytest.mark.parametrize("network", DENIED)
def test_both_ends_of_a_special_network_are_denied(network: str) -> None:
    policy = AddressPolicy()
    ends = ip_network(network)
    assert not policy.permits(ends[0])
    assert not policy.permits(ends[-1])


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_permitted(address: str) -> None:
    assert AddressPolicy().permits(ip_address(address))


@pytest.mark.parametrize("address", ["10.20.0.1", "::ffff:10.20.0.1"])
def test_an_allowed_range_opens_itself_and_nothing_more(address: str) -> None:
    policy = AddressPolicy((ip_network("10.20.0.0/16"),))
    assert policy.permits(ip_address(address))
    assert not policy.permits(ip_address("10.21.0.1"))
    # A translated form leads wherever the translator wants, whatever IPv4 address is in it.
    assert not policy.permits(ip_address("64:ff9b::10.20.0.1"))
    assert not policy.permits(ip_address("2002:0a14:0001::"))


@given(st.ip_addresses(v=4))
def test_an_address_in_other_clothes_is_judged_the_same(address: IPv4Address) -> None:
    policy = AddressPolicy()
    assert policy.permits(IPv6Address(f"::ffff:{address}")) == policy.permits(address)


@given(st.ip_addresses())
def test_nothing_that_the_standard_library_calls_special_is_permitted(
    address: IPv4Address | IPv6Address,
) -> None:
    if AddressPolicy().permits(address):
        plain = getattr(address, "ipv4_mapped", None) or address
        assert plain.is_global
        assert not plain.is_multicast
        assert not plain.is_reserved
