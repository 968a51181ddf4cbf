"""Which addresses may be connected to: an explicit list of what is refused, and what the
installation allows.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

# `is_global` of the standard library is not enough: it lets through the metadata and platform
# addresses of clouds, translated (NAT64, 6to4) forms of private addresses, and more, and it changes
# between Python versions.
DENIED_IPV4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",
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
    )
)
# Public IPv6 lies in 2000::/3 alone. The first three networks are all the rest: loopback, IPv4 in
# any wrapping, NAT64, discard-only, segment routing, unique local, link local, site local and
# multicast.
DENIED_IPV6 = tuple(
    IPv6Network(network)
    for network in (
        "::/3",
        "4000::/2",
        "8000::/1",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
    )
)


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Public addresses are permitted, and what lies in `allow`: the private ranges that this
    installation opened.
    """

    allow: tuple[IPv4Network | IPv6Network, ...] = ()

    def permits(self, address: IPv4Address | IPv6Address) -> bool:
        """True when a connection to `address` may be made. An IPv4 address in IPv6 clothes is
        judged as IPv4.
        """
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if any(address in network for network in self.allow):
            return True
        denied = DENIED_IPV4 if isinstance(address, IPv4Address) else DENIED_IPV6
        return not any(address in network for network in denied)
