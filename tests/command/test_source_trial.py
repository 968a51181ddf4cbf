"""`sinksweep sources test NAME`: what is right and what is wrong, in plain words, against a running service."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.__main__ import main
from tests.api.conftest import Service, opened
from tests.channels.conformance.fakes import answer, http_fake
from tests.database import Server

SECRET = "env:TRIAL_SECRET"
OTHER = "env:TRIAL_OTHER"
SOURCES: dict[str, Any] = {
    "chat": {"kind": "slack", "secrets": [SECRET]},
    "shop": {"kind": "shopify", "secrets": [SECRET]},
    "bot": {"kind": "telegram", "secrets": [OTHER]},
    "late": {"kind": "stripe", "secrets": ["env:TRIAL_ABSENT"]},
}


@pytest.fixture
async def service(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    monkeypatch.setenv("TRIAL_SECRET", "c4n4ry-one")
    monkeypatch.setenv("TRIAL_OTHER", "c4n4ry-two")
    async with postgres.database() as url, opened(url, sources=SOURCES) as running:
        yield running


@pytest.fixture
def tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Tries a source of this file: its exit status, and what was said."""

    async def try_(name: str, text: str, *, as_json: bool = True) -> tuple[int, Any]:
        file = tmp_path / "sinksweep.toml"
        file.write_text(text)
        words = ["sources", "test", name, "--config", str(file), *(["--json"] if as_json else [])]
        capsys.readouterr()
        status = await asyncio.to_thread(main, words)
        said = capsys.readouterr()
        assert "c4n4ry" not in said.out + said.err
        return status, json.loads(said.out) if as_json and said.out else said.out + said.err

    return try_


def _source(url: str, name: str, kind: str, secret: str = SECRET, more: str = "") -> str:
    return (
        f'server.public_url = "{url}"\n[sources.{name}]\nkind = "{kind}"\n'
        f'secrets = ["{secret}"]\n{more}'
    )


def _words(told: Any, what: str) -> str:
    return " ".join(one["words"] for one in told["found"] if one["what"] == what)


async def test_a_source_whose_secret_is_the_service_s_is_good_and_nothing_is_kept(
    service: Service, tried: Any
) -> None:
    status, told = await tried("chat", _source(service.url, "chat", "slack"))
    assert (status, told["good"]) == (0, True), told
    assert "nothing was kept" in _words(told, "good")
    assert "no reply_to" in _words(told, "note")
    assert "http://" in _words(told, "note")
    status, told = await tried("shop", _source(service.url, "shop", "shopify"))
    assert status == 0
    assert "only its provider can sign" in _words(told, "good")
    listed = (await service.get("/v1/turns")).json["items"]
    assert listed == []


async def test_what_is_wrong_is_said(service: Service, tried: Any) -> None:
    url = service.url
    status, told = await tried("bot", _source(url, "bot", "telegram"))
    assert (status, "another secret" in _words(told, "wrong")) == (1, True), told
    status, told = await tried("late", _source(url, "late", "stripe"))
    assert (status, "not ready" in _words(told, "wrong")) == (1, True), told
    status, told = await tried("nobody", _source(url, "nobody", "slack"))
    assert (status, "knows no source nobody" in _words(told, "wrong")) == (1, True), told
    status, told = await tried("chat", _source(url, "chat", "slack", "env:TRIAL_ABSENT"))
    assert (status, "env:TRIAL_ABSENT leads to nothing" in _words(told, "wrong")) == (1, True)


async def test_a_way_that_leads_elsewhere_is_told_from_one_that_leads_nowhere(
    monkeypatch: pytest.MonkeyPatch, tried: Any
) -> None:
    monkeypatch.setenv("TRIAL_SECRET", "c4n4ry-one")
    for said, words in (
        (answer(301), "a redirection"),
        (answer(200, {"hello": "tunnel"}), "is another one"),
        (answer(502), "is another one"),
        (answer(503), "not ready"),
        (answer(404), "is not this service"),
    ):
        async with http_fake(said) as fake:
            text = _source(f"http://127.0.0.1:{fake.port}", "chat", "slack")
            status, told = await tried("chat", text)
        assert words in json.dumps(told), told
        assert status == 1
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    status, told = await tried("chat", _source(f"http://127.0.0.1:{port}", "chat", "slack"))
    assert (status, "nobody answers at" in _words(told, "wrong")) == (1, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[sources.chat]\nkind = "slak"\nsecrets = ["env:A"]', "slack"),
        ('[sources.chat]\nkind = "slack"', "none is given"),
        ('[sources.chat]\nkind = "twilio"\nsecrets = ["env:A"]', "signs its URL"),
        (
            _source("http://a.example", "chat", "slack", more='queue = "nope"'),
            "sources.chat.queue: unknown name",
        ),
        (
            _source("http://a.example", "chat", "slack", more='reply_to = "nope"'),
            "chat.reply_to: unknown name",
        ),
    ],
)
async def test_what_no_service_would_start_with_is_named_by_its_key(
    tried: Any, text: str, words: str
) -> None:
    status, said = await tried("chat", text)
    assert (status, "chat" in said or "public_url" in said, words in said) == (2, True, True), said


async def test_an_unknown_name_is_told_the_known_ones(tried: Any) -> None:
    status, said = await tried("chatt", _source("http://a.example", "chat", "slack"))
    assert (status, "known here: chat" in said) == (2, True)


async def test_a_source_that_the_clock_asks_tells_its_next_times(tried: Any) -> None:
    text = '[sources.daily]\nkind = "cron"\nschedule = "30 9 * * *"'
    status, told = await tried("daily", text)
    assert status == 0
    assert "T09:30:00Z" in _words(told, "good")
    status, said = await tried("daily", text, as_json=False)
    assert said.startswith("daily (cron): good\n")
