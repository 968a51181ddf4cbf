"""Every value comes from the first place that says something."""

from ipaddress import ip_network
from pathlib import Path
from types import MappingProxyType

import pytest
from pydantic import SecretStr, ValidationError

from app.settings import Limits, Queue, Settings, load_settings
from tests.settings.loading import faults, load


def test_nothing_configured_is_a_working_configuration() -> None:
    settings = load()
    assert (settings.host, settings.port, settings.database_url) == ("127.0.0.1", 7979, None)
    assert settings.data_dir == Path("data")
    assert settings.queues == {"default": Queue()}
    assert settings.destinations == {}


def test_the_first_that_says_something_wins_key_by_key() -> None:
    text = (
        "[limits]\ndelay_seconds_max = 2\nmessages_max = 2\nreleases_max = 2\nturns_claim_max = 2"
    )
    limits = load(
        text,
        environ={"SINKSWEEP_LIMITS__DELAY_SECONDS_MAX": "3", "SINKSWEEP_LIMITS__MESSAGES_MAX": "3"},
        overrides={"limits": {"delay_seconds_max": 4}},
        assumed={"limits": {"releases_max": 1, "turns_claim_max": 1, "wait_seconds_max": 1}},
    ).limits
    assert (limits.delay_seconds_max, limits.messages_max, limits.releases_max) == (4, 3, 2)
    assert (limits.turns_claim_max, limits.wait_seconds_max) == (2, 1)
    assert limits.state_wait_seconds_max == Limits().state_wait_seconds_max


def test_a_flag_that_was_not_given_says_nothing() -> None:
    settings = load(environ={"SINKSWEEP_PORT": "0"}, overrides={"port": None, "config": None})
    assert settings.port == 0


def test_variables_reach_every_depth() -> None:
    settings = load(
        "[queues.support]\nattempts_max = 2",
        environ={
            "DATABASE_URL": "postgresql://user:secret@db/sink",
            "SINKSWEEP_HOST": "0.0.0.0",
            "SINKSWEEP_DATA_DIR": "/var/lib/sinksweep",
            "SINKSWEEP_DATABASE__ALLOW_UNSAFE": "true",
            "SINKSWEEP_NETWORK__ALLOW": '["10.0.0.0/8", "fd00::/8"]',
            "SINKSWEEP_QUEUES__SUPPORT__LEASE_SECONDS": "90",
            "SINKSWEEP_QUEUES__SUPPORT__DESTINATIONS": '["crm"]',
            "SINKSWEEP_DESTINATIONS__CRM__KIND": "webhook",
            "SINKSWEEP_DESTINATIONS__CRM__URL": "https://crm.example",
            "SINKSWEEP_KEYS__IDEMPOTENCY_DAYS": "",
            "PATH": "/bin",
        },
    )
    assert settings.database_url == SecretStr("postgresql://user:secret@db/sink")
    assert (settings.host, settings.data_dir) == ("0.0.0.0", Path("/var/lib/sinksweep"))
    assert settings.database.allow_unsafe
    assert settings.network.allow == (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    support = settings.queues["support"]
    assert (support.attempts_max, support.lease_seconds) == (2, 90)
    assert support.destinations == ("crm",)
    assert settings.destinations["crm"].options == {"url": "https://crm.example"}
    assert settings.keys.idempotency_days == 30


def test_the_environment_is_the_real_one_unless_another_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SINKSWEEP_SWEEP__BATCH_MAX", "7")
    assert load_settings(overrides={}).sweep.batch_max == 7
    assert Settings().sweep.batch_max == 500
    assert load().sweep.batch_max == 500


def test_the_file_is_the_named_one_and_then_must_exist(tmp_path: Path) -> None:
    load("port = 1")
    (tmp_path / "other.toml").write_text("port = 2")
    (tmp_path / "third.toml").write_text("port = 3")
    environ = {"SINKSWEEP_CONFIG": "other.toml"}
    assert load().port == 1
    assert load(environ=environ).port == 2
    assert load(environ=environ, overrides={"config": tmp_path / "third.toml"}).port == 3
    assert faults(environ={"SINKSWEEP_CONFIG": "absent.toml"}) == {"absent.toml": "file_missing"}
    assert faults(environ={"SINKSWEEP_CONFIG": "."}) == {".": "file_missing"}


def test_the_keys_of_a_channel_stay_as_they_are() -> None:
    text = '[destinations.crm]\nkind = "webhook"\nurl = "u"\nsecrets = ["env:A"]\nattempts_max = 3'
    crm = load(text).destinations["crm"]
    assert (crm.kind, crm.attempts_max) == ("webhook", 3)
    assert crm.options == {"url": "u", "secrets": ["env:A"]}


def test_settings_are_frozen_to_the_bottom() -> None:
    settings = load('[destinations.crm]\nkind = "webhook"\nurl = "u"')
    for target in (settings, settings.limits, settings.queues["default"]):
        with pytest.raises(ValidationError, match="frozen"):
            target.__setattr__("port", 1)
    for mapping in (
        settings.queues,
        settings.destinations,
        settings.destinations["crm"].options,
    ):
        assert isinstance(mapping, MappingProxyType)
