"""The bot API. https://docs.discord.com/developers/resources/message#create-message"""

from datetime import UTC, datetime, timedelta
from typing import Any

from app.channels import Reply
from app.domain.outcome import Delivered, NotThere, Rejected, RetryLater, Unknown
from tests.channels.conformance.fakes import answer
from tests.channels.conformance.sample import CANARY, SEALED_AT, Case, Sample, shut

GUILD, CHANNEL, ID = "197038439483310086", "199737254929760256", "1334385199974967042"


def sent(requests: Any) -> None:
    [one] = requests
    assert (one.method, one.path) == ("POST", f"/api/v10/channels/{CHANNEL}/messages")
    assert one.headers["authorization"] == f"Bot {CANARY}"
    assert one.headers["user-agent"].startswith("DiscordBot (https://")
    assert one.headers["content-type"].startswith("application/json")
    assert one.json == {
        "content": "Hello, you",
        "allowed_mentions": {"parse": ["users"]},
        "nonce": key(requests),
        "enforce_nonce": True,
    }


def key(requests: Any) -> str:
    nonce: str = requests[0].json["nonce"]
    assert len(nonce) == 25
    return nonce


def failed(status: int, code: int, **headers: str) -> bytes:
    return answer(status, {"message": "Words", "code": code}, **headers)


def snowflake(seconds: float) -> str:
    """An id that was given out so long after the first attempt."""
    moment = SEALED_AT + timedelta(seconds=seconds) - datetime(2015, 1, 1, tzinfo=UTC)
    return str(((moment // timedelta(milliseconds=1)) << 22) + 5)


def said(content: str, *, at: float = 1, bot: bool = True, **more: object) -> dict[str, object]:
    return {"id": snowflake(at), "content": content, "author": {"id": "1", "bot": bot}, **more}


def listed(*messages: dict[str, object]) -> bytes:
    return answer(200, list(messages))


OLD = said("Before", at=-60, bot=False)

SAMPLE = Sample(
    config={"token": "env:DISCORD_TOKEN", "api_url": "http://127.0.0.1:{port}/api/v10"},
    reply=Reply(kind="discord", parts=(GUILD, CHANNEL)),
    sent=sent,
    good=answer(200, {"id": ID, "channel_id": CHANNEL, "content": "Hello, you"}),
    receipt=ID,
    key=key,
    refused=(
        ({"payload": {"text": "x" * 2001}}, "/payload/text", "text_too_long"),
        ({"payload": {"content": "x" * 2001}}, "/payload/content", "text_too_long"),
        ({"payload": {"text": ""}}, "/payload/text", "text_empty"),
        ({"payload": {}}, "/payload/text", "text_empty"),
        ({"payload": {"text": "a", "content": "b"}}, "/payload/text", "field_not_allowed"),
        ({"payload": {"text": "a", "nonce": "b"}}, "/payload/nonce", "field_not_allowed"),
        ({"payload": {"text": "a", "username": "b"}}, "/payload/username", "field_not_allowed"),
        ({"payload": {"embeds": [{}] * 11}}, "/payload/embeds", "too_many"),
        ({"payload": {"text": "a", "poll": 1}}, "/payload/poll", "wrong_type"),
        ({"headers": {"X-A": "1"}}, "/headers", "header_not_allowed"),
        ({"recipient": "#general"}, "/to", "to_invalid"),
        ({"recipient": f"{CHANNEL}/../../users"}, "/to", "to_invalid"),
        ({"reply": None}, "/to", "to_missing"),
        ({"reply": Reply(kind="slack", parts=(GUILD, CHANNEL))}, "/to", "to_missing"),
    ),
    cases=(
        Case("no such channel", failed(404, 10003), Rejected("discord_10003")),
        Case("no permission", failed(403, 50013), Rejected("discord_50013")),
        Case("a person who blocks it", failed(403, 50007), Rejected("discord_50007")),
        Case("an invalid form", failed(400, 50035), Rejected("discord_50035")),
        Case(
            "a bad token",
            answer(401, {"message": "401: Unauthorized", "code": 0}),
            shut("http_401"),
        ),
        Case("a token of nobody", failed(403, 50014), shut("discord_50014")),
        Case(
            "too fast in a channel",
            answer(429, {"message": "W", "retry_after": 1.57, "global": False}, retry_after="2"),
            RetryLater("http_429", 1.57, counted=False, alone=True),
        ),
        Case(
            "too fast everywhere",
            answer(429, {"message": "W", "retry_after": 64.57, "global": True}),
            RetryLater("http_429", 64.57, counted=False),
        ),
        Case(
            "turned away at the door",
            answer(429, b"<html>", retry_after="600"),
            RetryLater("http_429", 600.0, counted=False),
        ),
        Case(
            "slow mode",
            answer(400, {"message": "W", "code": 20016, "retry_after": 5}),
            RetryLater("discord_20016", 5.0, counted=False, alone=True),
        ),
        Case("overloaded", failed(503, 130000), RetryLater("discord_130000")),
        Case("broken", answer(500), Unknown("http_500")),
        Case("a 204", answer(204), Unknown("answer_unreadable")),
    ),
    lookups=(
        Case("there", listed(said("Hello, you"), OLD), Delivered(snowflake(1))),
        Case("there without a space", listed(said("Hello,  you "), OLD), Delivered(snowflake(1))),
        Case("another text", listed(said("Hello"), OLD), NotThere()),
        Case("somebody else's", listed(said("Hello, you", bot=False), OLD), NotThere()),
        Case("a webhook's", listed(said("Hello, you", webhook_id="1"), OLD), NotThere()),
        Case("said before", listed(said("Hello, you", at=-9), OLD), NotThere()),
        Case("no history to read", listed(), Unknown("lookup_incomplete", ours=True)),
        Case("the whole of a short channel", listed(said("Hello")), NotThere()),
        Case(
            "pages of it", listed(*[said("Hello")] * 100), Unknown("lookup_incomplete", ours=True)
        ),
        Case("no id", listed({"content": "a"}), RetryLater("lookup: answer_unreadable")),
        Case("no list", answer(200, {"id": ID}), RetryLater("lookup: answer_unreadable")),
        Case("broken", answer(500), RetryLater("lookup: http_500")),
        Case("not allowed", failed(403, 50001), Unknown("lookup: discord_50001", ours=True)),
        Case("refused", answer(401, {"code": 0}), shut("http_401")),
    ),
    probes=(
        (answer(200, {"id": "1", "username": "acme-bot"}), True, "acme-bot"),
        (answer(401, {"message": "401: Unauthorized", "code": 0}), False, "401"),
    ),
)
