"""What is answered to the activity itself, where a token may go, and workflows."""

from typing import Any

import pytest
from pydantic import ValidationError

from app.channels import Draft, Reply
from app.channels.teams import TeamsConfig, channel
from app.domain.outcome import Delivered, Outcome, Rejected, RetryLater, Shut, Unknown
from tests.channels.conformance.attempts import (
    HOSTILE,
    addressed,
    bare,
    secrets_of,
    wired,
)
from tests.channels.conformance.fakes import NEVER, answer, http_fake
from tests.channels.conformance.sample import CANARY, load, outgoing, shut
from tests.channels.conformance.samples.teams import CONVERSATION, TOKEN

GIVEN = answer(200, {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3599})
DRAFT = Draft(
    destination="d", recipient=None, headers={}, content_type="text/plain", body=b"Hello, you"
)
BOT = {"app_id": "a", "password": "env:P"}


async def sent(*answers: bytes | None, seconds: float = 5.0) -> Outcome:
    sample = load("teams")
    async with http_fake(*answers) as fake, wired(seconds=seconds) as wire:
        _, config, message = addressed("teams", sample, port=fake.port)
        secrets = secrets_of(channel, config, sample, port=fake.port)
        outcome = await channel.send(message, config=config, secrets=secrets, wire=wire)
    assert CANARY not in repr(outcome)
    assert TOKEN not in repr(outcome)
    return outcome


def failed(status: int, word: str, **headers: str) -> bytes:
    return answer(status, {"error": {"code": word, "message": "Words"}}, **headers)


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (answer(201, {"id": "1:2"}), Delivered("1:2")),
        (answer(202, b""), Delivered(None)),
        (failed(403, "BotNotInConversationRoster"), Rejected("bot_not_in_conversation_roster")),
        (failed(403, "ConversationBlockedByUser"), Rejected("conversation_blocked_by_user")),
        (failed(404, "ConversationNotFound"), Rejected("conversation_not_found")),
        (failed(400, "BadSyntax"), Rejected("bad_syntax")),
        (failed(413, "MessageSizeTooBig"), Rejected("message_size_too_big")),
        (failed(400, "Words of their own!"), Rejected("http_400")),
        (failed(401, "Unauthorized"), shut("unauthorized")),
        (
            failed(429, "TooManyRequests", retry_after="3"),
            RetryLater("too_many_requests", 3.0, counted=False, alone=True),
        ),
        (failed(412, "PreconditionFailed"), RetryLater("precondition_failed")),
        (answer(503, b"", retry_after="4"), RetryLater("http_503", 4.0)),
        (answer(502, b"<html>"), Unknown("http_502")),
        (answer(504), Unknown("http_504")),
        (failed(500, "ServiceError"), Unknown("http_500")),
        (answer(200), Unknown("answer_unreadable")),
    ],
)
async def test_each_answer_means_what_microsoft_means_by_it(said: bytes, outcome: Outcome) -> None:
    assert bare(await sent(GIVEN, said)) == outcome


@pytest.mark.parametrize("hostile", sorted(HOSTILE))
async def test_a_hostile_answer_to_the_activity_is_an_outcome(hostile: str) -> None:
    outcome = await sent(GIVEN, HOSTILE[hostile])
    assert isinstance(outcome, RetryLater | Rejected | Unknown), outcome


async def test_an_answer_that_repeats_the_fetched_token_shows_nothing_of_it() -> None:
    for status in (200, 400, 500):
        await sent(GIVEN, answer(status, {"authorization": f"Bearer {TOKEN}"}))


async def test_what_is_silent_before_the_activity_was_not_sent_and_after_it_is_unknown() -> None:
    assert await sent(NEVER, seconds=0.3) == RetryLater("timeout")
    assert await sent(GIVEN, NEVER, seconds=0.5) == Unknown("timeout")


@pytest.mark.parametrize(
    "service",
    [
        "https://attacker.example/emea/",
        "https://smba.trafficmanager.net.attacker.example/",
        "https://smba.trafficmanager.net@attacker.example/",
        "https://attacker.example/smba.trafficmanager.net",
        "http://smba.trafficmanager.net/emea/",
        "https://smba.trafficmanager.net/emea/?x=1",
        "https://smba.trafficmanager.net/#x",
        "ftp://smba.trafficmanager.net/",
        "",
    ],
)
def test_a_token_goes_to_no_host_that_a_message_names(service: str) -> None:
    reply = Reply(kind="teams_bot", parts=(CONVERSATION,), capability={"service_url": service})
    config = TeamsConfig.model_validate(BOT)
    address = channel.check(DRAFT, reply=reply, config=config)
    assert dict(address.parts) == {"conversation": CONVERSATION}


def test_a_conversation_is_answered_where_its_service_is() -> None:
    given = {"service_url": "https://smba.trafficmanager.net/emea/"}
    reply = Reply(kind="teams_bot", parts=(CONVERSATION,), capability=given)
    address = channel.check(DRAFT, reply=reply, config=TeamsConfig.model_validate(BOT))
    assert address.parts["service_url"] == "https://smba.trafficmanager.net/emea"
    assert not address.uses_reply


async def test_a_host_that_is_no_longer_allowed_gets_no_token() -> None:
    config = TeamsConfig.model_validate({**BOT, "service_hosts": ["elsewhere.example"]})
    parts = {"conversation": "19:a", "service_url": "https://smba.trafficmanager.net/emea"}
    async with wired() as wire:
        outcome = await channel.send(
            outgoing(DRAFT, parts), config=config, secrets=[b"secret"], wire=wire
        )
    assert outcome == Rejected("service_host_not_allowed")


async def through_a_workflow(said: bytes) -> tuple[Outcome, Any]:
    config = TeamsConfig.model_validate({"webhook_url": "env:HOOK"})
    address = channel.check(DRAFT, reply=None, config=config)
    async with http_fake(said) as fake, wired() as wire:
        url = f"http://127.0.0.1:{fake.port}/workflows/f1/triggers/manual/run?sig=s3cr3t-signature"
        message = outgoing(DRAFT, address.parts)
        outcome = await channel.send(message, config=config, secrets=[url.encode()], wire=wire)
        [one] = fake.requests
    assert "s3cr3t-signature" not in repr(outcome)
    return outcome, one


async def test_a_workflow_is_given_a_card_with_the_text() -> None:
    outcome, one = await through_a_workflow(answer(202))
    assert bare(outcome) == Delivered(None)
    assert (one.method, one.path.partition("?")[2]) == ("POST", "sig=s3cr3t-signature")
    assert one.json["type"] == "message"
    [card] = one.json["attachments"]
    assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert card["content"]["body"] == [{"type": "TextBlock", "text": "Hello, you", "wrap": True}]


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (answer(200, b"1"), Unknown("answer_unreadable")),
        (answer(400, b"sig=s3cr3t-signature"), Rejected("http_400")),
        (answer(401), shut("http_401")),
        (answer(404), RetryLater("webhook_gone", counted=False, shut=Shut.GONE)),
        (answer(429, b"", retry_after="2"), RetryLater("http_429", 2.0, counted=False)),
        (answer(502), Unknown("http_502")),
    ],
)
async def test_each_answer_of_a_workflow_has_a_meaning(said: bytes, outcome: Outcome) -> None:
    found, _ = await through_a_workflow(said)
    assert bare(found) == outcome


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"app_id": "a"},
        {"password": "env:P"},
        {**BOT, "webhook_url": "env:B"},
        {"webhook_url": "env:B", "to": "19:a"},
        {**BOT, "tenant": "../x"},
    ],
)
def test_a_configuration_has_one_way_to_send(options: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        TeamsConfig.model_validate(options)
