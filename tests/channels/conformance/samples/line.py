"""The Messaging API. https://developers.line.biz/en/reference/messaging-api/#send-push-message"""

from typing import Any
from uuid import UUID

from app.channels import Reply
from app.domain.outcome import Delivered, Rejected, RetryLater, Unknown
from tests.channels.conformance.fakes import answer
from tests.channels.conformance.sample import CANARY, Case, Sample, shut

USER = "U4af4980629" + "0" * 22
ID = "461230966842064897"


def sent(requests: Any) -> None:
    [one] = requests
    assert (one.method, one.path) == ("POST", "/v2/bot/message/push")
    assert one.headers["authorization"] == f"Bearer {CANARY}"
    assert one.headers["content-type"].startswith("application/json")
    assert one.json == {"to": USER, "messages": [{"type": "text", "text": "Hello, you"}]}


def key(requests: Any) -> str:
    given = requests[0].headers["x-line-retry-key"]
    assert str(UUID(given)) == given
    return str(given)


def failed(status: int, words: str, **headers: str) -> bytes:
    return answer(status, {"message": words}, **headers)


SAMPLE = Sample(
    config={"token": "env:LINE_TOKEN", "api_url": "http://127.0.0.1:{port}"},
    reply=Reply(kind="line", parts=("user", USER), capability={"reply_token": "nHuyWi"}),
    sent=sent,
    good=answer(200, {"sentMessages": [{"id": ID, "quoteToken": "IStG5h1Tz7b"}]}),
    receipt=ID,
    key=key,
    refused=(
        ({"payload": {"text": "x" * 5001}}, "/payload/text", "text_too_long"),
        ({"payload": {"text": "😀" * 2501}}, "/payload/text", "text_too_long"),
        ({"payload": {"text": " "}}, "/payload/text", "text_empty"),
        ({"payload": {}}, "/payload/text", "text_empty"),
        ({"payload": {"text": "a", "to": USER}}, "/payload/to", "field_not_allowed"),
        ({"payload": {"text": "a", "replyToken": "b"}}, "/payload/replyToken", "field_not_allowed"),
        ({"payload": {"messages": [{"type": "text"}] * 6}}, "/payload/messages", "too_many"),
        ({"payload": {"messages": ["a"]}}, "/payload/messages", "wrong_type"),
        (
            {"payload": {"text": "a", "messages": [{"type": "sticker"}]}},
            "/payload/text",
            "field_not_allowed",
        ),
        ({"headers": {"X-A": "1"}}, "/headers", "header_not_allowed"),
        ({"recipient": "somebody"}, "/to", "to_invalid"),
        ({"recipient": USER.upper()}, "/to", "to_invalid"),
        ({"reply": None}, "/to", "to_missing"),
        ({"reply": Reply(kind="telegram", parts=("user", USER))}, "/to", "to_missing"),
    ),
    cases=(
        Case(
            "accepted before",
            failed(409, "The retry key is already accepted", x_line_accepted_request_id="123e4567"),
            Delivered("123e4567"),
        ),
        Case(
            "accepted before, with its messages",
            answer(409, {"message": "accepted", "sentMessages": [{"id": ID}, {"id": "2"}]}),
            Delivered(f"{ID},2"),
        ),
        Case("accepted before, without a word", answer(409, b""), Delivered(None)),
        Case("no such user", failed(400, "Failed to send messages"), Rejected("http_400")),
        Case("a bad token", failed(401, "Authentication failed"), shut("http_401")),
        Case("no such plan", failed(403, "Access to this API is not available"), shut("http_403")),
        Case(
            "too fast",
            failed(429, "The API rate limit has been exceeded. Try again later."),
            RetryLater("http_429", counted=False),
        ),
        Case(
            "the month is over",
            failed(429, "You have reached your monthly limit."),
            RetryLater("monthly_limit", 3600.0, counted=False),
        ),
        Case("broken", failed(500, "Internal server error"), Unknown("http_500")),
        Case("a 200 without messages", answer(200, {}), Unknown("answer_unreadable")),
    ),
    probes=(
        (answer(200, {"displayName": "Acme", "userId": USER}), True, "Acme"),
        (failed(401, "Authentication failed"), False, "401"),
    ),
)
