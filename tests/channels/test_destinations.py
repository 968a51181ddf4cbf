"""What a channel knows of its provider holds where nobody says otherwise, and a look says what is wrong."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.__main__ import main
from app.channels import Draft, Reply, Wire
from app.core import build_routes
from app.domain.errors import InvalidContent
from app.domain.model import Taken
from app.domain.outcome import Delivered, Rejected, RetryLater, Unknown
from app.settings import Settings, SettingsError, load_settings
from tests.channels.conformance.fakes import answer, http_fake


def settings(**destinations: dict[str, Any]) -> Settings:
    overrides = {"destinations": destinations, "network": {"allow": ["127.0.0.0/8"]}}
    return load_settings(overrides=overrides, environ={})


def taken(**changes: Any) -> Taken:
    """A message that was sealed for a webhook, under a lease."""
    at = datetime(2026, 3, 1, tzinfo=UTC)
    message = Taken(
        message=UUID(int=1),
        turn=UUID(int=2),
        attempt_id=UUID(int=3),
        attempt=1,
        attempts_used=1,
        may_have_arrived=False,
        age_seconds=0.0,
        queue="default",
        conversation=None,
        destination="chat",
        key="msg_1",
        recipient=None,
        headers={},
        content_type="application/json",
        body=b'{"text": "hi"}',
        sealed_at=at,
        attempted_at=at,
        expires_at=None,
    )
    return replace(message, **changes)


def test_what_nobody_wrote_is_what_the_provider_takes() -> None:
    routes = build_routes(
        settings(
            chat={"kind": "telegram", "token": "env:T"},
            slow={"kind": "telegram", "token": "env:T", "rate_per_second": 1, "pace_seconds": 0},
            mail={"kind": "smtp", "host": "mx.example", "from": "a@b.example"},
            hook={"kind": "webhook", "url": "https://crm.example/"},
        )
    )
    found = {
        name: (one.settings.rate_per_second, one.settings.pace_seconds)
        for name, one in routes.items()
    }
    assert found == {"chat": (25, 1), "slow": (1, 0), "mail": (5, None), "hook": (None, None)}
    assert routes["mail"].settings.timeout_seconds == 120
    assert (routes["mail"].settings.concurrency_max, routes["hook"].settings.concurrency_max) == (
        4,
        32,
    )


def test_a_conversation_of_a_kind_that_a_channel_does_not_answer_is_none_to_it() -> None:
    chat = {"kind": "slack", "answer_by": "response_url"}
    route = build_routes(settings(chat=chat))["chat"]
    draft = Draft(
        destination="chat", recipient=None, headers={}, content_type="text/plain", body=b"Hello"
    )
    ended = Reply(kind="slack", parts=("T01", "C0123ABCD"))
    for reply, code in ((ended, "reply_expired"), (replace(ended, kind="discord"), "to_missing")):
        with pytest.raises(InvalidContent) as refused:
            route.check(draft, reply=reply)
        assert [problem.code for problem in refused.value.problems] == [code]


def test_a_look_up_needs_somebody_who_can_be_asked() -> None:
    with pytest.raises(SettingsError) as refused:
        build_routes(settings(chat={"kind": "telegram", "token": "env:T", "on_unknown": "lookup"}))
    (fault,) = refused.value.faults
    assert (fault.path, fault.code) == ("destinations.chat.on_unknown", "contradiction")
    assert "slack" in fault.detail
    route = build_routes(
        settings(
            chat={
                "kind": "slack",
                "token": "env:T",
                "on_unknown": "lookup",
                "key_ttl_seconds": 60,
                "timeout_seconds": 10,
            }
        )
    )["chat"]
    assert (route.attempt_seconds, route.key_ttl_seconds) == (20, None)
    assert route.policy.lookup_after_seconds == 5


async def test_what_was_sealed_for_another_kind_is_rejected_and_never_guessed_at(
    wire: Wire,
) -> None:
    options = {
        "slack": {"token": "env:PATH"},
        "telegram": {"token": "env:TELEGRAM_OF_TESTS"},
        "smtp": {"host": "127.0.0.1", "from": "a@b.example"},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELEGRAM_OF_TESTS", "1:a")
        for kind, own in options.items():
            route = build_routes(settings(chat={"kind": kind, **own}))["chat"]
            outcome = await route.send(taken(), wire=wire)
            assert outcome == Rejected("not_for_this_kind: to_missing"), kind
            unreadable = taken(address='{"chat_id":"1","channel":"C01","to":"a@b.c"}', body=b"{")
            outcome = await route.send(unreadable, wire=wire)
            assert isinstance(outcome, Rejected)
            assert isinstance(await route.lookup(taken(), wire=wire), Unknown)


async def test_no_receipt_and_no_look_shows_the_token_that_a_provider_repeats(wire: Wire) -> None:
    token = "xoxb-c4n4ry"
    repeated = {"ok": True, "channel": "C01", "ts": token, "user": token, "team": token}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLACK_OF_TESTS", token)
        async with http_fake(answer(200, repeated)) as fake:
            own = {"token": "env:SLACK_OF_TESTS", "api_url": f"http://127.0.0.1:{fake.port}"}
            route = build_routes(settings(chat={"kind": "slack", **own}))["chat"]
            outcome = await route.send(taken(address='{"channel":"C01"}'), wire=wire)
            probed = await route.probe(wire=wire)
    assert isinstance(outcome, Delivered)
    assert outcome.receipt == "C01:***"
    assert probed.words == "Slack knows its token: *** of ***"


async def command(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str) -> Any:
    """What `sinksweep destinations test NAME` prints, and its exit status."""
    file = tmp_path / "sinksweep.toml"
    file.write_text(text)
    arguments = ["destinations", "test", name, "--config", str(file), "--json"]
    status = await asyncio.to_thread(main, arguments)
    shown = capsys.readouterr()
    return status, json.loads(shown.out) if shown.out else shown.err


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        (answer(200, {"ok": True, "user": "helper", "team": "Acme"}), 0, "helper of Acme"),
        (answer(200, {"ok": False, "error": "token_revoked"}), 1, "token_revoked"),
        (answer(500), 1, "does not take"),
    ],
)
async def test_a_look_at_a_destination_says_in_plain_words_what_is_wrong(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    said: bytes,
    status: int,
    words: str,
) -> None:
    monkeypatch.setenv("SLACK_OF_TESTS", "xoxb-secret")
    async with http_fake(said) as fake:
        text = (
            f'network.allow = ["127.0.0.0/8"]\n[destinations.chat]\nkind = "slack"\n'
            f'token = "env:SLACK_OF_TESTS"\napi_url = "http://127.0.0.1:{fake.port}"\n'
        )
        ended, told = await command(tmp_path, capsys, "chat", text)
        assert (ended, told["good"], words in told["words"]) == (status, status == 0, True), told
        assert "xoxb-secret" not in json.dumps(told)
        assert [one.path for one in fake.requests] == ["/auth.test"]
        unknown, error = await command(tmp_path, capsys, "crm", text)
        assert (unknown, "known here: chat" in error) == (2, True)
        monkeypatch.delenv("SLACK_OF_TESTS")
        ended, told = await command(tmp_path, capsys, "chat", text)
    assert (ended, "env:SLACK_OF_TESTS leads to nothing" in told["words"]) == (1, True)


async def test_a_secret_that_is_rotated_or_taken_away_is_so_for_the_next_attempt(
    wire: Wire, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    async with http_fake(answer(200, {}), answer(200, {}), answer(200, {})) as fake:
        hook = {
            "kind": "webhook",
            "url": f"http://127.0.0.1:{fake.port}/",
            "secrets": [f"file:{secret}"],
        }
        route = build_routes(settings(chat=hook))["chat"]
        for text in ("one", "two", "one"):
            secret.write_text(text)
            # In a later moment.
            await asyncio.sleep(0.005)
            assert isinstance(await route.send(taken(), wire=wire), Delivered)
        secret.unlink()
        await asyncio.sleep(0.005)
        outcome = await route.send(taken(), wire=wire)
    assert outcome == RetryLater("secret_missing")
    one, two, again = (request.headers["webhook-signature"] for request in fake.requests)
    assert one == again != two


async def test_who_is_made_from_another_in_the_same_moment_reads_secrets_of_his_own(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    loop = asyncio.get_running_loop()
    async with http_fake(answer(200, {}), answer(200, {})) as fake:
        hooks = {
            name: {
                "kind": "webhook",
                "url": f"http://127.0.0.1:{fake.port}/",
                "secrets": [f"file:{tmp_path / name}"],
            }
            for name in ("one", "two")
        }
        routes = build_routes(settings(**hooks))
        made = replace(routes["one"], config=routes["two"].config)
        now = loop.time()
        for route in (routes["one"], made):
            with monkeypatch.context() as still:
                still.setattr(loop, "time", lambda: now)
                sending = route.send(taken(), wire=wire)
                task = asyncio.Task(sending, loop=loop)
                await asyncio.sleep(0)
            await task
    one, two = (request.headers["webhook-signature"] for request in fake.requests)
    assert one != two
