"""Webhooks and follow-ups of interactions: what the sample of bots does not show."""

import base64
from typing import Any

import pytest
from pydantic import ValidationError

from app.channels import Draft, Outgoing, Reply, Wire
from app.channels.discord import DiscordConfig, channel
from app.domain.errors import InvalidContent
from app.domain.outcome import (
    Delivered,
    Found,
    NotThere,
    Outcome,
    Rejected,
    RetryLater,
    Shut,
    Unknown,
)
from tests.channels.conformance.attempts import bare, wired
from tests.channels.conformance.fakes import answer, http_fake
from tests.channels.conformance.sample import load, outgoing
from tests.channels.conformance.samples.discord import CHANNEL, GUILD, ID, snowflake

APPLICATION, TOKEN = "1029384756473829105", "aW50ZXJhY3Rpb246c2VjcmV0LXRva2Vu"
DRAFT = Draft(
    destination="d", recipient=None, headers={}, content_type="text/plain", body=b"Hello, you"
)
ASKED = Reply(
    kind="discord",
    parts=(GUILD, CHANNEL),
    capability={"application_id": APPLICATION, "token": TOKEN},
)
GOOD = answer(200, {"id": ID})


def config(port: int = 1, **options: Any) -> DiscordConfig:
    return DiscordConfig.model_validate({"api_url": f"http://127.0.0.1:{port}/api/v10", **options})


async def sent(options: DiscordConfig, *, secrets: list[bytes], **changes: Any) -> Outcome:
    address = channel.check(DRAFT, reply=ASKED, config=options)
    given = ASKED.capability if address.uses_reply else None
    message: Outgoing = outgoing(DRAFT, address.parts, **({"reply": given} | changes))
    async with wired() as wire:
        hidden = Wire(http=wire.http, store=wire.store, until=wire.until, hidden=(TOKEN,))
        outcome = await channel.send(message, config=options, secrets=secrets, wire=hidden)
    assert TOKEN not in repr(outcome)
    return outcome


async def test_a_webhook_is_waited_for_and_posts_into_its_thread() -> None:
    async with http_fake(GOOD) as fake:
        options = config(fake.port, webhook_url="env:HOOK", to=CHANNEL)
        url = f"http://127.0.0.1:{fake.port}/api/webhooks/{APPLICATION}/{TOKEN}?wait=false"
        outcome = await sent(options, secrets=[url.encode()])
        [one] = fake.requests
    assert isinstance(outcome, Delivered)
    assert outcome.receipt == ID
    path = f"/api/webhooks/{APPLICATION}/{TOKEN}?wait=true&thread_id={CHANNEL}"
    assert (one.method, one.path) == ("POST", path)
    assert "authorization" not in one.headers
    assert one.json == {"content": "Hello, you", "allowed_mentions": {"parse": ["users"]}}


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (
            answer(404, {"message": f"Unknown Webhook {TOKEN}", "code": 10015}),
            RetryLater("webhook_gone", counted=False, shut=Shut.GONE),
        ),
        (
            answer(401, {"message": "Invalid Webhook Token", "code": 50027}),
            RetryLater("webhook_gone", counted=False, shut=Shut.GONE),
        ),
        (answer(404, b""), RetryLater("webhook_gone", counted=False, shut=Shut.GONE)),
        (
            answer(404, {"message": "Unknown Channel", "code": 10003}),
            Rejected("discord_10003"),
        ),
        (answer(204), Unknown("answer_unreadable")),
        (
            answer(400, {"message": "Cannot send an empty message", "code": 50006}),
            Rejected("discord_50006"),
        ),
    ],
)
async def test_a_webhook_that_is_gone_is_asked_nothing_more(said: bytes, outcome: Outcome) -> None:
    async with http_fake(said) as fake:
        url = f"http://127.0.0.1:{fake.port}/api/webhooks/{APPLICATION}/{TOKEN}"
        found = await sent(config(fake.port, webhook_url="env:HOOK"), secrets=[url.encode()])
    assert bare(found) == outcome


async def test_an_interaction_is_answered_by_a_follow_up() -> None:
    async with http_fake(GOOD) as fake:
        outcome = await sent(config(fake.port, answer_by="interaction"), secrets=[])
        [one] = fake.requests
    assert isinstance(outcome, Delivered)
    assert (one.method, one.path) == ("POST", f"/api/v10/webhooks/{APPLICATION}/{TOKEN}")
    assert "authorization" not in one.headers
    assert one.json == {"content": "Hello, you", "allowed_mentions": {"parse": ["users"]}}


async def test_the_bot_speaks_where_an_interaction_has_ended() -> None:
    ended = answer(404, {"message": "Unknown Webhook", "code": 10015})
    async with http_fake(ended, GOOD) as fake:
        options = config(fake.port, answer_by="interaction", token="env:BOT")
        outcome = await sent(options, secrets=[b"bot-token"])
        assert isinstance(outcome, Delivered)
        paths = [one.path for one in fake.requests]
        assert paths[1:] == [f"/api/v10/channels/{CHANNEL}/messages"]
        outcome = await sent(options, secrets=[b"bot-token"], reply=None)
        assert isinstance(outcome, Delivered)
        assert [one.path for one in fake.requests[2:]] == paths[1:]


async def test_without_a_bot_an_ended_interaction_is_the_end() -> None:
    async with http_fake(answer(401, {"message": "Invalid Webhook Token", "code": 50027})) as fake:
        options = config(fake.port, answer_by="interaction")
        assert bare(await sent(options, secrets=[])) == Rejected("reply_expired")
        outcome = await sent(options, secrets=[], reply=None)
    assert outcome == Rejected("reply_expired")
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    "capability",
    [
        None,
        {"application_id": APPLICATION},
        {"application_id": "../../users", "token": TOKEN},
        {"application_id": APPLICATION, "token": "a/../../b"},
        {"application_id": APPLICATION, "token": f"{TOKEN}?x=1"},
    ],
)
def test_what_leads_nowhere_is_refused_at_the_seal(capability: dict[str, object] | None) -> None:
    reply = Reply(kind="discord", parts=(GUILD, CHANNEL), capability=capability)
    with pytest.raises(InvalidContent) as refused:
        channel.check(DRAFT, reply=reply, config=config(answer_by="interaction"))
    assert [problem.code for problem in refused.value.problems] == ["reply_expired"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"token": "env:A", "webhook_url": "env:B"},
        {"webhook_url": "env:B", "answer_by": "interaction"},
        {"token": "env:A", "to": "general"},
    ],
)
def test_a_configuration_has_one_way_to_send(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        config(**options)


def test_no_address_holds_what_it_is_answered_with() -> None:
    options = config(answer_by="interaction", token="env:A")
    address = channel.check(DRAFT, reply=ASKED, config=options)
    assert address.uses_reply
    assert dict(address.parts) == {"channel_id": CHANNEL, "via": "interaction"}
    assert load("discord").key is not None


async def test_what_another_bot_says_in_the_same_words_is_not_ours() -> None:
    made = {"id": snowflake(1), "content": "Hello, you", "nonce": None}
    older = {"id": snowflake(-60), "content": "before", "author": {"id": "7", "bot": True}}
    found: list[Found] = []
    for author in (APPLICATION, "204255221017214977"):
        said = [{**made, "author": {"id": author, "bot": True}}, older]
        async with http_fake(answer(200, said)) as fake:
            options = config(fake.port, token="env:BOT")
            message = outgoing(DRAFT, channel.check(DRAFT, reply=ASKED, config=options).parts)
            # A token begins with the id of its bot, in base64.
            token = base64.b64encode(APPLICATION.encode()).rstrip(b"=") + b".Cl2FMQ.secret"
            async with wired() as wire:
                found.append(
                    await channel.lookup(message, config=options, secrets=[token], wire=wire)
                )
    assert found == [Delivered(snowflake(1)), NotThere()]
