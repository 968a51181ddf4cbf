"""What dev makes of a configuration that was written for elsewhere."""

from ipaddress import ip_address
from pathlib import Path

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
