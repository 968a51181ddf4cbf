"""The Cloud API. https://developers.facebook.com/docs/whatsapp/cloud-api/reference/messages"""

from typing import Any

from app.channels import Reply
from app.domain.outcome import Rejected, RetryLater, Unknown
from tests.channels.conformance.fakes import answer
from tests.channels.conformance.sample import CANARY, Case, Sample, shut

OURS, THEIRS = "106540352242922", "16505551234"
WAMID = "wamid.HBgLMTY1MDUwNzY1MjAVAgARGBI5QTNDQTVCM0Q0Q0Q2RTY3RTcA"
KEY = "msg_01m8mm0q26eqsr3g96xejx5fy8"


def sent(requests: Any) -> None:
    [one] = requests
    assert (one.method, one.path) == ("POST", f"/v25.0/{OURS}/messages")
    assert one.headers["authorization"] == f"Bearer {CANARY}"
    assert one.headers["content-type"].startswith("application/json")
    assert one.json == {
        "messaging_product": "whatsapp",
        "recipient_type": "individual",
        "to": THEIRS,
        "type": "text",
        "text": {"body": "Hello, you"},
        "biz_opaque_callback_data": KEY,
    }


def key(requests: Any) -> str:
    found: str = requests[0].json["biz_opaque_callback_data"]
    return found


def failed(status: int, code: int, **headers: str) -> bytes:
    error = {"message": f"(#{code}) Words", "type": "OAuthException", "code": code}
    return answer(status, {"error": error | {"fbtrace_id": "Az8or2yhqkZfEZ"}}, **headers)


GOOD = {
    "messaging_product": "whatsapp",
    "contacts": [{"input": THEIRS, "wa_id": THEIRS}],
    "messages": [{"id": WAMID, "message_status": "accepted"}],
}

SAMPLE = Sample(
    config={"token": "env:WHATSAPP_TOKEN", "api_url": "http://127.0.0.1:{port}/v25.0"},
    reply=Reply(kind="whatsapp", parts=(OURS, THEIRS)),
    sent=sent,
    good=answer(200, GOOD),
    receipt=WAMID,
    key=key,
    refused=(
        ({"payload": {"text": "x" * 4097}}, "/payload/text", "text_too_long"),
        ({"payload": {"text": ""}}, "/payload/text", "text_empty"),
        ({"payload": {}}, "/payload/text", "text_empty"),
        ({"payload": {"type": "template"}}, "/payload/text", "text_empty"),
        ({"payload": {"text": {"body": "a"}}}, "/payload/text", "wrong_type"),
        ({"payload": {"text": "a", "to": "1"}}, "/payload/to", "field_not_allowed"),
        (
            {"payload": {"text": "a", "biz_opaque_callback_data": "b"}},
            "/payload/biz_opaque_callback_data",
            "field_not_allowed",
        ),
        ({"payload": {"text": "a", "image": {}}}, "/payload/image", "field_not_allowed"),
        ({"payload": {"image": {}, "video": {}}}, "/payload/video", "field_not_allowed"),
        ({"payload": {"image": "a"}}, "/payload/image", "wrong_type"),
        ({"payload": {"image": {}, "type": "video"}}, "/payload/type", "wrong_type"),
        ({"headers": {"X-A": "1"}}, "/headers", "header_not_allowed"),
        ({"recipient": "somebody"}, "/to", "to_invalid"),
        ({"recipient": "1/../../me"}, "/to", "to_invalid"),
        ({"reply": None}, "/to", "to_missing"),
        ({"recipient": "+16505551234", "reply": None}, "/to", "to_invalid"),
        ({"reply": Reply(kind="twilio", parts=(OURS, THEIRS))}, "/to", "to_missing"),
    ),
    cases=(
        Case("a day of silence", failed(400, 131047), Rejected("whatsapp_131047")),
        Case("no such user", failed(400, 131026), Rejected("whatsapp_131026")),
        Case("no such template", failed(404, 132001), Rejected("whatsapp_132001")),
        Case("a wrong parameter", failed(400, 100), Rejected("whatsapp_100")),
        Case("an ended token", failed(401, 190), shut("whatsapp_190")),
        Case("no permission", failed(403, 200), shut("whatsapp_200")),
        Case("a locked account", failed(403, 131031), shut("whatsapp_131031")),
        Case("not paid", failed(400, 131042), shut("whatsapp_131042")),
        Case("too fast", failed(429, 130429), RetryLater("whatsapp_130429", counted=False)),
        Case(
            "too fast for Meta",
            failed(400, 80007, retry_after="60"),
            RetryLater("whatsapp_80007", 60.0, counted=False),
        ),
        Case(
            "too fast to one person",
            failed(400, 131056),
            RetryLater("whatsapp_131056", 6.0, counted=False, alone=True),
        ),
        Case("away", failed(500, 131016), RetryLater("whatsapp_131016")),
        Case("perhaps", failed(500, 131000), Unknown("whatsapp_131000")),
        Case("nobody knows", failed(500, 1), Unknown("whatsapp_1")),
        Case("an error in a 200", failed(200, 131026), Rejected("whatsapp_131026")),
        Case("a gateway", answer(502, b"<html>"), Unknown("http_502")),
        Case("a 200 without an id", answer(200, {"messages": []}), Unknown("answer_unreadable")),
    ),
    probes=(
        (answer(200, {"id": "1", "name": "Acme"}), True, "Acme"),
        (failed(401, 190), False, "190"),
    ),
)
