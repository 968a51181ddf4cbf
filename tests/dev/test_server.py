"""What dev makes of a configuration that was written for elsewhere."""

from ipaddress import ip_address
from pathlib import Path

import pytest

from app.dev.server import for_dev
from app.settings import load_settings
from app.wire.addresses import AddressPolicy


def test_receivers_on_this_machine_are_reachable_whatever_else_is_allowed(tmp_path: Path) -> None:
    file = tmp_path / "sinksweep.toml"
    file.write_text('[network]\nallow = ["10.20.0.0/16"]\n')
    settings = for_dev(load_settings(overrides={"config": str(file)}, environ={}), "postgresql://x")
    policy = AddressPolicy(settings.network.allow)
    assert all(policy.permits(ip_address(one)) for one in ("127.0.0.1", "::1", "10.20.1.1"))
    assert not policy.permits(ip_address("10.21.0.1"))


@pytest.mark.parametrize("given", [None, "https://in.example"])
def test_links_lead_to_where_dev_listens_unless_somebody_says_where(given: str | None) -> None:
    overrides = {} if given is None else {"server": {"public_url": given}}
    settings = load_settings(overrides=overrides, environ={})
    assert for_dev(settings, "postgresql://x").server.public_url == given
    here = "http://127.0.0.1:7979"
    assert for_dev(settings, "postgresql://x", here=here).server.public_url == (given or here)
