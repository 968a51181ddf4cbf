"""The Bot API. https://core.telegram.org/bots/api#sendmessage"""

from typing import Any

from app.channels import Reply
from app.domain.outcome import Rejected, RetryLater, Unknown
from tests.channels.conformance.fakes import answer
from tests.channels.conformance.sample import CANARY, Case, Sample, shut


def sent(requests: Any) -> None:
    [one] = requests
    assert (one.method, one.path) == ("POST", f"/bot{CANARY}/sendMessage")
    assert one.headers["content-type"] == "application/json; charset=utf-8"
    assert one.json == {"text": "Hello, you", "chat_id": -1001234, "message_thread_id": 17}


def failed(code: int, words: str, **parameters: object) -> bytes:
    said = {"ok": False, "error_code": code, "description": words}
    return answer(code, said | ({"parameters": parameters} if parameters else {}))


SAMPLE = Sample(
    config={"token": "env:TELEGRAM_TOKEN", "api_url": "http://127.0.0.1:{port}"},
    reply=Reply(kind="telegram", parts=("-1001234", "17")),
    sent=sent,
    good=answer(200, {"ok": True, "result": {"message_id": 42, "chat": {"id": -1001234}}}),
    receipt="-1001234:42",
    key=None,
    refused=(
        ({"payload": {"text": "x" * 4097}}, "/payload/text", "text_too_long"),
        ({"payload": {"text": "😀" * 2049}}, "/payload/text", "text_too_long"),
        ({"payload": {"text": ""}}, "/payload/text", "text_empty"),
        ({"payload": {}}, "/payload/text", "required"),
        ({"payload": {"text": "a", "chat_id": 1}}, "/payload/chat_id", "field_not_allowed"),
        ({"payload": {"text": "a", "method": "x"}}, "/payload/method", "field_not_allowed"),
        ({"headers": {"X-A": "1"}}, "/headers", "header_not_allowed"),
        ({"recipient": "somebody"}, "/to", "to_invalid"),
        ({"recipient": "1/../../getMe"}, "/to", "to_invalid"),
        ({"reply": None}, "/to", "to_missing"),
        ({"reply": Reply(kind="slack", parts=("1", "2"))}, "/to", "to_missing"),
    ),
    cases=(
        Case("no chat", failed(400, "Bad Request: chat not found"), Rejected("bad_request")),
        Case("blocked", failed(403, "Forbidden: bot was blocked"), Rejected("forbidden")),
        Case("a bad token", failed(401, "Unauthorized"), shut("http_401")),
        Case("no token", failed(404, "Not Found"), shut("http_404")),
        Case(
            "too fast",
            failed(429, "Too Many Requests: retry after 35", retry_after=35),
            RetryLater("too_many_requests", 35.0, counted=False, alone=True),
        ),
        Case("broken", failed(500, "Internal Server Error"), Unknown("http_500")),
        Case("a gateway", answer(502, b"<html>"), Unknown("http_502")),
        Case("an empty 200", answer(200), Unknown("answer_unreadable")),
        Case(
            "blocked, in a 200",
            answer(200, {"ok": False, "error_code": 403, "description": "Forbidden"}),
            Rejected("forbidden"),
        ),
        Case(
            "too fast, in a 200",
            answer(200, {"ok": False, "error_code": 429, "parameters": {"retry_after": 7}}),
            RetryLater("too_many_requests", 7.0, counted=False, alone=True),
        ),
        Case(
            "a group that moved on",
            failed(400, "", migrate_to_chat_id=-100),
            Rejected("bad_request"),
        ),
    ),
    probes=(
        (answer(200, {"ok": True, "result": {"username": "acme_bot"}}), True, "@acme_bot"),
        (failed(401, "Unauthorized"), False, "@BotFather"),
    ),
)
