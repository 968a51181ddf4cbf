"""The client-server API. https://spec.matrix.org/latest/client-server-api/#sending-events-to-a-room"""

from typing import Any

from app.channels import Reply
from app.domain.outcome import Rejected, RetryLater, Unknown
from tests.channels.conformance.fakes import answer
from tests.channels.conformance.sample import CANARY, Case, Sample, shut

ROOM, ROOT = "!636q39766251:example.org", "$143273582443PhrSn"
KEY = "msg_01m8mm0q26eqsr3g96xejx5fy8"


def sent(requests: Any) -> None:
    [one] = requests
    room = "%21636q39766251%3Aexample.org"
    path = f"/_matrix/client/v3/rooms/{room}/send/m.room.message/{KEY}"
    assert (one.method, one.path) == ("PUT", path)
    assert one.headers["authorization"] == f"Bearer {CANARY}"
    assert one.json == {
        "msgtype": "m.text",
        "body": "Hello, you",
        "m.relates_to": {
            "rel_type": "m.thread",
            "event_id": ROOT,
            "is_falling_back": True,
            "m.in_reply_to": {"event_id": ROOT},
        },
    }


def key(requests: Any) -> str:
    found: str = requests[0].path.rpartition("/")[2]
    return found


def failed(status: int, word: str, **more: object) -> bytes:
    return answer(status, {"errcode": word, "error": "Words", **more})


SAMPLE = Sample(
    config={"token": "env:MATRIX_TOKEN", "api_url": "http://127.0.0.1:{port}"},
    reply=Reply(kind="matrix", parts=(ROOM, ROOT)),
    sent=sent,
    good=answer(200, {"event_id": "$YUwRidLecu:example.org"}),
    receipt="$YUwRidLecu:example.org",
    key=key,
    refused=(
        ({"payload": {"text": "x" * 60_001}}, "/payload/text", "text_too_long"),
        ({"payload": {"text": "ü" * 30_001}}, "/payload/text", "text_too_long"),
        ({"payload": {"text": ""}}, "/payload/text", "text_empty"),
        ({"payload": {}}, "/payload/text", "required"),
        ({"payload": {"body": "a", "text": "b"}}, "/payload/text", "field_not_allowed"),
        (
            {"payload": {"body": "a", "m.relates_to": {}}},
            "/payload/m.relates_to",
            "field_not_allowed",
        ),
        ({"payload": {"body": "a", "msgtype": "m.image"}}, "/payload/msgtype", "wrong_type"),
        ({"payload": {"body": "a", "formatted_body": "<b>a</b>"}}, "/payload/format", "required"),
        ({"headers": {"X-A": "1"}}, "/headers", "header_not_allowed"),
        ({"recipient": "#room:example.org"}, "/to", "to_invalid"),
        ({"recipient": "!a/../../b"}, "/to", "to_invalid"),
        ({"recipient": "!a b"}, "/to", "to_invalid"),
        ({"reply": None}, "/to", "to_missing"),
        ({"reply": Reply(kind="slack", parts=(ROOM, ROOT))}, "/to", "to_missing"),
    ),
    cases=(
        Case("no member", failed(403, "M_FORBIDDEN"), Rejected("m_forbidden")),
        Case("too large", failed(413, "M_TOO_LARGE"), Rejected("m_too_large")),
        Case("no such path", failed(404, "M_UNRECOGNIZED"), Rejected("m_unrecognized")),
        Case("a bad token", failed(401, "M_UNKNOWN_TOKEN"), shut("m_unknown_token")),
        Case("an ended account", failed(403, "M_USER_DEACTIVATED"), shut("m_user_deactivated")),
        Case(
            "too fast",
            answer(429, {"errcode": "M_LIMIT_EXCEEDED"}, retry_after="4"),
            RetryLater("m_limit_exceeded", 4.0, counted=False),
        ),
        Case(
            "too fast in the words of an older server",
            failed(429, "M_LIMIT_EXCEEDED", retry_after_ms=2500),
            RetryLater("m_limit_exceeded", 2.5, counted=False),
        ),
        Case(
            "too fast without a word",
            answer(429, b"<html>", retry_after="9"),
            RetryLater("http_429", 9.0, counted=False),
        ),
        Case(
            "a full server",
            failed(403, "M_RESOURCE_LIMIT_EXCEEDED"),
            RetryLater("m_resource_limit_exceeded"),
        ),
        Case("broken", failed(500, "M_UNKNOWN"), Unknown("http_500")),
        Case("a gateway", answer(502, b"<html>"), Unknown("http_502")),
        Case("a 200 without an event", answer(200, {}), Unknown("answer_unreadable")),
    ),
    probes=(
        (answer(200, {"user_id": "@helper:example.org"}), True, "@helper:example.org"),
        (failed(401, "M_UNKNOWN_TOKEN"), False, "M_UNKNOWN_TOKEN"),
    ),
)
