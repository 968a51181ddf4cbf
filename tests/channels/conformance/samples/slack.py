"""Slack's Web API. https://docs.slack.dev/reference/methods/chat.postMessage"""

from typing import Any

from app.channels import Reply
from app.domain.outcome import (
    Delivered,
    NotThere,
    Rejected,
    RetryLater,
    Unknown,
)
from tests.channels.conformance.fakes import answer
from tests.channels.conformance.sample import CANARY, Case, Sample, shut

KEY = "msg_01m8mm0q26eqsr3g96xejx5fy8"


def sent(requests: Any) -> None:
    [one] = requests
    assert (one.method, one.path) == ("POST", "/api/chat.postMessage")
    assert one.headers["authorization"] == f"Bearer {CANARY}"
    assert one.headers["content-type"] == "application/json; charset=utf-8"
    assert one.json == {
        "text": "Hello, you",
        "channel": "C0123ABCD",
        "thread_ts": "1712345678.000100",
        "metadata": {"event_type": "sinksweep_message", "event_payload": {"key": KEY}},
    }


def key(requests: Any) -> str:
    found: str = requests[0].json["metadata"]["event_payload"]["key"]
    return found


def error(word: str) -> bytes:
    return answer(200, {"ok": False, "error": word})


def found(key: str) -> dict[str, object]:
    payload = {"event_type": "sinksweep_message", "event_payload": {"key": key}}
    return {"type": "message", "ts": "1712345999.000200", "metadata": payload}


SAMPLE = Sample(
    config={"token": "env:SLACK_TOKEN", "api_url": "http://127.0.0.1:{port}/api"},
    reply=Reply(kind="slack", parts=("T01", "C0123ABCD", "1712345678.000100")),
    sent=sent,
    good=answer(200, {"ok": True, "channel": "C0123ABCD", "ts": "1712345999.000200"}),
    receipt="C0123ABCD:1712345999.000200",
    key=key,
    refused=(
        ({"payload": {"text": "x" * 40_001}}, "/payload/text", "text_too_long"),
        ({"payload": {"text": " "}}, "/payload/text", "text_empty"),
        ({"payload": {}}, "/payload/text", "text_empty"),
        ({"payload": {"text": 5}}, "/payload/text", "wrong_type"),
        ({"payload": {"text": "a", "channel": "C9"}}, "/payload/channel", "field_not_allowed"),
        ({"payload": {"text": "a", "thread_ts": "1.1"}}, "/payload/thread_ts", "field_not_allowed"),
        ({"payload": {"blocks": [{}] * 51}}, "/payload/blocks", "too_many"),
        (
            {"payload": {"text": "a", "markdown_text": "b"}},
            "/payload/markdown_text",
            "field_not_allowed",
        ),
        ({"payload": b'"\\ud800"'}, "/payload", "payload_unreadable"),
        ({"payload": [1]}, "/payload", "wrong_type"),
        ({"headers": {"X-A": "1"}}, "/headers", "header_not_allowed"),
        ({"content_type": "text/html"}, "/content_type", "content_type_invalid"),
        ({"recipient": "#general"}, "/to", "to_invalid"),
        ({"recipient": "C0123ABCD\n"}, "/to", "to_invalid"),
        ({"reply": None}, "/to", "to_missing"),
        ({"reply": Reply(kind="telegram", parts=("1", "C0123ABCD"))}, "/to", "to_missing"),
    ),
    cases=(
        Case("no such channel", error("channel_not_found"), Rejected("channel_not_found")),
        Case("no member", error("not_in_channel"), Rejected("not_in_channel")),
        Case("archived", error("is_archived"), Rejected("is_archived")),
        Case("revoked", error("token_revoked"), shut("token_revoked")),
        Case("a scope is missing", error("missing_scope"), shut("missing_scope")),
        Case("a bad token", error("invalid_auth"), shut("invalid_auth")),
        Case(
            "too fast",
            answer(429, {"ok": False, "error": "ratelimited"}, retry_after="30"),
            RetryLater("ratelimited", 30.0, counted=False),
        ),
        Case("too fast in a 200", error("rate_limited"), RetryLater("rate_limited", counted=False)),
        Case("away", error("service_unavailable"), RetryLater("service_unavailable")),
        Case("perhaps", error("internal_error"), Unknown("internal_error")),
        Case("fatal", error("fatal_error"), Unknown("fatal_error")),
        Case("a word of their own", error("Nobody knows!"), Rejected("refused")),
        Case("a gateway", answer(502, b"<html>"), Unknown("http_502")),
        Case("an empty 200", answer(200), Unknown("answer_unreadable")),
    ),
    lookups=(
        Case(
            "there",
            answer(200, {"ok": True, "messages": [{"text": "x"}, found(KEY)]}),
            Delivered("C0123ABCD:1712345999.000200"),
        ),
        Case("another", answer(200, {"ok": True, "messages": [found("msg_other")]}), NotThere()),
        Case("empty", answer(200, {"ok": True, "messages": [], "has_more": False}), NotThere()),
        Case(
            "a page of it",
            answer(200, {"ok": True, "messages": [], "has_more": True}),
            Unknown("lookup_incomplete", ours=True),
        ),
        Case(
            "not allowed to read",
            error("missing_scope"),
            Unknown("lookup: missing_scope", ours=True),
        ),
        Case(
            "too often",
            answer(429, {"ok": False, "error": "ratelimited"}, retry_after="60"),
            RetryLater("ratelimited", 60.0, counted=False),
        ),
        Case("broken", answer(500), RetryLater("lookup: http_500")),
        Case(
            "no list",
            answer(200, {"ok": True, "messages": "x"}),
            RetryLater("lookup: answer_unreadable"),
        ),
    ),
    probes=(
        (answer(200, {"ok": True, "user": "helper", "team": "Acme"}), True, "helper of Acme"),
        (error("invalid_auth"), False, "invalid_auth"),
    ),
)
