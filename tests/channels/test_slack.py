"""Slack: through a URL while it lasts, as the bot when it has ended, and never to somebody else's URL."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from app.channels import Address, Draft, Outgoing, Reply, Wire
from app.channels.slack import SlackConfig, channel
from app.domain.errors import InvalidContent
from app.domain.outcome import Delivered, Outcome, Rejected
from tests.channels.conformance.fakes import HttpFake, answer, http_fake
from tests.channels.conformance.sample import outgoing

POSTED = answer(200, {"ok": True, "channel": "C01", "ts": "1.2"})
PARTS = ("T01", "C01", "1700000000.000100")


def draft(**changes: Any) -> Draft:
    plain = Draft(
        destination="slack",
        recipient=None,
        headers={},
        content_type="application/json",
        body=b'{"text": "hi"}',
    )
    return replace(plain, **changes)


def config(fake: HttpFake, **changes: Any) -> SlackConfig:
    base = {"api_url": f"http://127.0.0.1:{fake.port}", "response_hosts": ["127.0.0.1"]}
    return SlackConfig.model_validate({**base, "answer_by": "response_url", **changes})


def commanded(fake: HttpFake, *, path: str = "/commands/T01/1/abcdefgh", **changes: Any) -> Reply:
    capability = {"response_url": f"http://127.0.0.1:{fake.port}{path}", **changes}
    return Reply(kind="slack", parts=PARTS, capability=capability)


def sealed(reply: Reply | None, settings: SlackConfig, **changes: Any) -> Outgoing:
    """What is sent of a draft that answers a command."""
    one = draft(**changes)
    address = channel.check(one, reply=reply, config=settings)
    capability: Mapping[str, object] | None = None
    if address.uses_reply and reply is not None:
        capability = reply.capability
    return outgoing(one, address.parts, reply=capability)


async def send(
    message: Outgoing, settings: SlackConfig, wire: Wire, secrets: Sequence[bytes | None]
) -> Outcome:
    timed = replace(wire, until=time.monotonic() + 5)
    return await channel.send(message, config=settings, secrets=secrets, wire=timed)


async def test_a_command_is_answered_through_its_url_for_all_to_see(wire: Wire) -> None:
    async with http_fake(answer(200, b"ok")) as fake:
        settings = config(fake)
        message = sealed(commanded(fake), settings)
        assert message.address == {"via": "response_url"}
        assert isinstance(await send(message, settings, wire, []), Delivered)
    [one] = fake.requests
    assert (one.method, one.path) == ("POST", "/commands/T01/1/abcdefgh")
    assert one.json == {"response_type": "in_channel", "text": "hi"}
    assert "authorization" not in one.headers


async def test_the_agent_may_answer_only_whoever_asked(wire: Wire) -> None:
    async with http_fake(answer(200, {"ok": True})) as fake:
        settings = config(fake)
        body = b'{"text": "hi", "response_type": "ephemeral"}'
        message = sealed(commanded(fake), settings, body=body)
        assert isinstance(await send(message, settings, wire, []), Delivered)
    assert fake.requests[0].json == {"text": "hi", "response_type": "ephemeral"}


@pytest.mark.parametrize("word", ["expired_url", "used_url"])
async def test_a_url_that_slack_has_closed_is_followed_by_a_post_of_the_bot(
    wire: Wire, word: str
) -> None:
    async with http_fake(answer(404, word.encode()), POSTED) as fake:
        settings = config(fake, token="env:T")
        message = sealed(commanded(fake), settings)
        outcome = await send(message, settings, wire, [b"xoxb-1"])
    assert isinstance(outcome, Delivered)
    assert outcome.receipt == "C01:1.2"
    through_url, posted = fake.requests
    assert posted.path == "/chat.postMessage"
    assert posted.json["thread_ts"] == "1700000000.000100"  # type: ignore[index]
    assert "response_type" not in posted.body.decode()
    assert through_url.path.startswith("/commands/")


async def test_what_waited_too_long_is_posted_by_the_bot_and_without_one_never(wire: Wire) -> None:
    async with http_fake(POSTED) as fake:
        with_bot, alone = config(fake, token="env:T"), config(fake)
        late = replace(sealed(commanded(fake), with_bot), reply=None)
        assert isinstance(await send(late, with_bot, wire, [b"xoxb-1"]), Delivered)
        late = replace(sealed(commanded(fake), alone), reply=None)
        assert await send(late, alone, wire, []) == Rejected("reply_expired")
    assert [one.path for one in fake.requests] == ["/chat.postMessage"]


async def test_a_url_of_somebody_else_is_none() -> None:
    async with http_fake(POSTED) as fake:
        strict = config(fake, token="env:T", response_hosts=["hooks.slack.com"])
        address = channel.check(draft(), reply=commanded(fake), config=strict)
        assert address == Address({"channel": "C01", "thread_ts": "1700000000.000100"})
        real = config(fake, token="env:T", api_url="https://slack.com/api")
        # Plain http is for a stand-in alone.
        assert not channel.check(draft(), reply=commanded(fake), config=real).uses_reply
        for url in ("https://127.0.0.1@evil.example/", "https://127.0.0.1.evil.example/x", "x", ""):
            reply = commanded(fake, response_url=url)
            assert not channel.check(draft(), reply=reply, config=real).uses_reply


async def test_a_capability_that_was_changed_meanwhile_is_checked_again(wire: Wire) -> None:
    async with http_fake(POSTED) as fake:
        settings = config(fake)
        message = sealed(commanded(fake), settings)
        message = replace(message, reply={"response_url": "https://evil.example/"})
        assert await send(message, settings, wire, []) == Rejected("reply_expired")
    assert fake.requests == []


async def test_an_incoming_webhook_has_one_place(wire: Wire) -> None:
    settings = SlackConfig(webhook_url="env:URL")
    assert channel.check(draft(), reply=None, config=settings).parts == {"via": "webhook"}
    with pytest.raises(InvalidContent):
        channel.check(draft(recipient="C01"), reply=None, config=settings)
    async with http_fake(answer(200, b"ok"), answer(404, b"no_service")) as fake:
        url = f"http://127.0.0.1:{fake.port}/services/T/B/secretpath".encode()
        message = sealed(None, settings)
        assert isinstance(await send(message, settings, wire, [url]), Delivered)
        gone = await send(message, settings, wire, [url])
    assert isinstance(gone, Rejected)
    assert gone.reason == "no_service"
    assert fake.requests[0].json == {"text": "hi"}


async def test_a_fixed_place_wins_over_the_thread_and_a_named_one_over_both() -> None:
    settings = SlackConfig(token="env:T", to="C09/1.1")
    thread = Reply(kind="slack", parts=PARTS)
    fixed = channel.check(draft(), reply=thread, config=settings)
    assert fixed.parts == {"channel": "C09", "thread_ts": "1.1"}
    named = channel.check(draft(recipient="U07"), reply=thread, config=settings)
    assert named.parts == {"channel": "U07"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"token": "xoxb-1"},
        {"token": "env:T", "to": "#general"},
        {"webhook_url": "env:U", "token": "env:T"},
        {"webhook_url": "env:U", "to": "C01"},
        {"webhook_url": "https://hooks.slack.com/services/x"},
        {"token": "env:T", "api_url": "ftp://slack.com"},
    ],
)
def test_a_configuration_that_cannot_work_is_refused(options: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        SlackConfig.model_validate(options)
    assert "xoxb-1" not in str(refused.value)
