"""Programmable Messaging. https://www.twilio.com/docs/messaging/api/message-resource"""

import base64
from typing import Any

from app.channels import Reply
from app.domain.outcome import Delivered, NotThere, Rejected, RetryLater, Unknown
from tests.channels.conformance.fakes import answer
from tests.channels.conformance.sample import CANARY, Case, Sample, shut

ACCOUNT = "AC" + "0123456789abcdef" * 2
SID = "SM" + "0123456789abcdef" * 2
OURS, THEIRS = "whatsapp:+15550100", "whatsapp:+15550199"


def sent(requests: Any) -> None:
    [one] = requests
    assert (one.method, one.path) == ("POST", f"/2010-04-01/Accounts/{ACCOUNT}/Messages.json")
    told = base64.b64encode(f"{ACCOUNT}:{CANARY}".encode()).decode()
    assert one.headers["authorization"] == f"Basic {told}"
    assert one.headers["content-type"] == "application/x-www-form-urlencoded"
    assert one.form == {"To": THEIRS, "From": OURS, "Body": "Hello, you"}


def failed(status: int, code: int) -> bytes:
    return answer(status, {"code": code, "message": "Words", "status": status})


def listed(*messages: dict[str, object], more: str | None = None) -> bytes:
    return answer(200, {"messages": list(messages), "next_page_uri": more})


def message(body: str, at: str, direction: str = "outbound-api") -> dict[str, object]:
    created = f"Sun, 01 Mar 2026 {at} +0000"
    return {"sid": SID, "body": body, "date_created": created, "direction": direction}


SAMPLE = Sample(
    config={
        "account_sid": ACCOUNT,
        "token": "env:TWILIO_TOKEN",
        "api_url": "http://127.0.0.1:{port}",
    },
    reply=Reply(kind="twilio", parts=(OURS, THEIRS)),
    sent=sent,
    good=answer(201, {"sid": SID, "status": "queued"}),
    receipt=SID,
    key=None,
    refused=(
        ({"payload": {"text": "x" * 1601}}, "/payload/text", "text_too_long"),
        ({"payload": {"text": ""}}, "/payload/text", "text_empty"),
        ({"payload": {}}, "/payload/text", "text_empty"),
        ({"payload": {"text": "a", "From": "+1555"}}, "/payload/From", "field_not_allowed"),
        ({"payload": {"media_urls": ["http://a/b"]}}, "/payload/media_urls", "text_invalid"),
        ({"payload": {"media_urls": ["https://a/b"] * 11}}, "/payload/media_urls", "too_many"),
        (
            {"payload": {"content_sid": "HX1", "content_variables": {"1": 2}}},
            "/payload/content_variables",
            "wrong_type",
        ),
        ({"headers": {"X-A": "1"}}, "/headers", "header_not_allowed"),
        ({"recipient": "somebody"}, "/to", "to_invalid"),
        ({"recipient": "+15550199"}, "/to", "to_invalid"),
        ({"reply": None}, "/to", "to_missing"),
        ({"reply": Reply(kind="twilio", parts=("+15550100", THEIRS))}, "/to", "to_invalid"),
    ),
    cases=(
        Case("no number", failed(400, 21211), Rejected("twilio_21211")),
        Case("opted out", failed(400, 21610), Rejected("twilio_21610")),
        Case("a bad token", failed(401, 20003), shut("twilio_20003")),
        Case("no account", failed(404, 20404), shut("twilio_20404")),
        Case("too fast", failed(429, 20429), RetryLater("twilio_20429", counted=False)),
        Case("away", failed(503, 20503), RetryLater("twilio_20503")),
        Case("broken", failed(500, 20500), Unknown("http_500")),
        Case("a 201 without a sid", answer(201, {}), Unknown("answer_unreadable")),
    ),
    lookups=(
        Case("there", listed(message("Hello, you", "12:00:01")), Delivered(SID)),
        Case("in the same second", listed(message("Hello, you", "12:00:00")), Delivered(SID)),
        Case("before", listed(message("Hello, you", "11:59:58")), NotThere()),
        Case("theirs", listed(message("Hello, you", "12:00:01", "inbound")), NotThere()),
        Case("another", listed(message("Hello", "12:00:01")), NotThere()),
        Case("nothing", listed(), NotThere()),
        Case(
            "a page of it",
            listed(message("Hello", "12:00:01"), more="/2010-04-01/next"),
            Unknown("lookup_incomplete", ours=True),
        ),
        Case("no date", listed({"body": "Hello, you"}), RetryLater("lookup: answer_unreadable")),
        Case("broken", answer(500), RetryLater("lookup: http_500")),
        Case("refused", failed(401, 20003), shut("twilio_20003")),
    ),
    probes=(
        (answer(200, {"sid": ACCOUNT, "status": "active"}), True, "active"),
        (answer(200, {"sid": ACCOUNT, "status": "suspended"}), False, "suspended"),
        (failed(401, 20003), False, "401"),
    ),
)
