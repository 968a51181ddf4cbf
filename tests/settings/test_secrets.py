"""Secrets are pointers, followed at use, and printed by nobody."""

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.settings import resolve_secret
from tests.settings.loading import CANARY, load


def test_the_effective_configuration_prints_without_a_secret() -> None:
    settings = load(
        f"""
        database_url = "postgresql://u:{CANARY}@db/x"
        [network]
        allow = ["10.0.0.0/8"]
        [destinations.chat]
        kind = "webhook"
        url = "https://chat.example/{CANARY}"
        secrets = ["env:CHAT", "{CANARY}"]
        nested = {{ token = "{CANARY}", tries = 3 }}
        """
    )
    dumped = settings.model_dump(mode="json")
    assert CANARY not in repr(dumped)
    assert CANARY not in settings.model_dump_json()
    assert dumped["network"] == {"allow": ["10.0.0.0/8"]}
    assert dumped["destinations"]["chat"]["options"] == {
        "url": "***",
        "secrets": ["env:CHAT", "***"],
        "nested": {"token": "***", "tries": 3},
    }


def test_a_pointer_leads_to_the_database() -> None:
    Path("url").write_text("postgresql://from-file/db\n")
    environ = {"DATABASE_URL": "file:url"}
    assert load(environ=environ).database_url == SecretStr("postgresql://from-file/db")
    environ = {"DATABASE_URL": "env:PG", "PG": "postgres://from-env/db"}
    assert load(environ=environ).database_url == SecretStr("postgres://from-env/db")


def test_a_pointer_leads_past_the_pooler() -> None:
    environ = {"DIRECT": "postgresql://u:p@db/x", "SINKSWEEP_DATABASE__DIRECT_URL": "env:DIRECT"}
    settings = load(environ=environ)
    assert settings.database.direct_url == SecretStr("postgresql://u:p@db/x")
    assert "u:p" not in settings.model_dump_json()


def test_a_secret_is_read_when_it_is_used() -> None:
    place = Path("secret")
    place.write_bytes(b"one\n")
    assert resolve_secret("file:secret") == b"one"
    place.write_bytes(b"two\r\n")
    assert resolve_secret(f"file:{place.absolute()}") == b"two"
    environ = {"A": "three"}
    assert resolve_secret("env:A", environ=environ) == b"three"
    environ["A"] = " four \n\n"
    assert resolve_secret("env:A", environ=environ) == b" four \n"


def test_a_secret_of_the_real_environment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_SECRET", "five")
    assert resolve_secret("env:CRM_SECRET") == b"five"


@pytest.mark.parametrize("content", [b"", b"\n", b" \t\r\n", b"x" * 65_537])
def test_a_secret_without_content_is_no_secret(content: bytes) -> None:
    Path("secret").write_bytes(content)
    assert resolve_secret("file:secret") is None
    assert resolve_secret("env:A", environ={"A": content.decode()}) is None


@pytest.mark.parametrize(
    "pointer",
    [
        "file:absent",
        "file:.",
        "file:",
        "file:/dev/zero",
        "file:a\0b",
        "env:",
        "env:B",
        "x",
        "",
        "s:x",
    ],
)
def test_what_leads_to_nothing_is_no_secret(pointer: str) -> None:
    assert resolve_secret(pointer, environ={"A": "a"}) is None


def test_a_pipe_is_no_secret_and_holds_nobody_up() -> None:
    os.mkfifo("pipe")
    assert resolve_secret("file:pipe") is None
