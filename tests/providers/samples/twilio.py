"""Twilio: texts, WhatsApp with media, statuses, the GET variant, lists of events; and its own library's vectors."""

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import unquote_to_bytes, urlencode

from app.domain.webhook import Request, Secrets
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
FORM = "application/x-www-form-urlencoded"
SID, OTHER_SID = f"SM{'1' * 32}", f"MM{'2' * 32}"


def fields_of(form: bytes) -> bytes:
    """Twilio's own order: each name with each of its values, sorted, nothing between them."""
    parts = [part.replace(b"+", b" ").partition(b"=") for part in form.split(b"&") if part]
    pairs = {(unquote_to_bytes(name), unquote_to_bytes(value)) for name, _, value in parts}
    return b"".join(name + value for name, value in sorted(pairs))


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:
    del now
    signed = b""
    if request.method == "POST" and (request.content_type == FORM or not request.body):
        signed = fields_of(request.body)
    elif request.method == "POST":
        digest = hashlib.sha256(request.body).hexdigest()
        request = replace(request, public_url=f"{request.public_url}?bodySHA256={digest}")
    settings = request.headers.get("x-twilio-webhooks-signature-settings", "")
    how = hashlib.sha256 if settings.endswith("HMAC_SHA256") else hashlib.sha1
    made = hmac.new(secrets.active[0], request.public_url.encode() + signed, how).digest()
    return with_headers(request, x_twilio_signature=base64.b64encode(made).decode())


def signed_key(form: bytes, url: str = URL) -> str:
    return f"sha256:{hashlib.sha256(url.encode() + fields_of(form)).hexdigest()}"


def form(**fields: str) -> bytes:
    return urlencode({"AccountSid": f"AC{'0' * 32}", **fields}).encode()


TEXT = form(
    MessageSid=SID, SmsSid=SID, SmsStatus="received", NumMedia="0", FromCity="",
    To="+15550199", From="+15550100", Body="a waffle maker? \u00e9", ApiVersion="2010-04-01",
)  # fmt: skip
WHATSAPP = form(
    MessageSid=OTHER_SID, SmsStatus="received", NumMedia="1", MediaUrl0="https://api.example/1",
    MediaContentType0="image/jpeg", To="whatsapp:+15550199", From="whatsapp:+15550100", Body="this one",
)  # fmt: skip
SENT = form(
    MessageSid=SID, MessageStatus="delivered", SmsStatus="delivered", From="+15550199", To="+15550100"
)  # fmt: skip
ADDED = form(
    EventType="onMessageAdded", ConversationSid="CH1", MessageSid="IM1", Author="ann", Body="hello?"
)
GET_URL = f"{URL}?{TEXT.decode()}"
EVENTS = [
    {
        "id": "EZ1",
        "type": "com.twilio.messaging.inbound-message.received",
        "time": "2026-11-30T12:00:00Z",
        "data": {"to": "+15550199", "from": "+15550100", "body": "hello?"},
    },
    {"id": "EZ2", "type": "com.twilio.messaging.message.sent", "data": {"messageSid": SID}},
]
# Of twilio-python, tests/unit/test_request_validator.py.
OLD_URL = "https://mycompany.com/myapp.php?foo=1&bar=2"
CALL = b"CallSid=CA1234567890ABCDE&Digits=1234&From=%2B14158675309&To=%2B18005551212&Caller=%2B14158675309"
JSON_BODY = b'{"property": "value", "boolean": true}'
JSON_HASH = "0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620"


def vector(name: str, url: str, signature: str, body: bytes, content_type: str = FORM) -> Vector:
    return Vector(
        name=name,
        source="twilio-python, tests/unit/test_request_validator.py",
        request=Request(
            method="POST",
            public_url=url,
            headers={"content-type": content_type, "x-twilio-signature": signature},
            body=body,
        ),
        secrets=Secrets((b"12345",)),
        now=NOW,
    )


CASES = (
    Case(
        sign=sign,
        secrets=Secrets((b"0123456789abcdef0123456789abcdef",)),
        other=Secrets((b"another-auth-token",)),
        now=NOW,
        samples=(
            Sample(
                name="a-text",
                body=TEXT,
                content_type=FORM,
                items=(
                    Expected(
                        keys=(SID, signed_key(TEXT)),
                        event="message",
                        conversation=("+15550199", "+15550100"),
                        text="a waffle maker? \u00e9",
                        sender="+15550100",
                        body=TEXT,
                    ),
                ),
            ),
            Sample(
                name="signed-with-a-shared-key",
                body=TEXT,
                content_type=FORM,
                headers={
                    "x-twilio-webhooks-signature-settings": "key=webhooks_1,algorithm=HMAC_SHA256"
                },
                items=(
                    Expected(
                        keys=(SID, signed_key(TEXT)),
                        event="message",
                        conversation=("+15550199", "+15550100"),
                        text="a waffle maker? \u00e9",
                        sender="+15550100",
                    ),
                ),
            ),
            Sample(
                name="a-whatsapp-message-with-a-picture",
                body=WHATSAPP,
                content_type=f"{FORM}; charset=UTF-8",
                items=(
                    Expected(
                        keys=(OTHER_SID, signed_key(WHATSAPP)),
                        event="message",
                        conversation=("whatsapp:+15550199", "whatsapp:+15550100"),
                        text="this one",
                        sender="whatsapp:+15550100",
                        attachments=1,
                    ),
                ),
            ),
            Sample(
                name="what-became-of-a-message-of-ours",
                body=SENT,
                content_type=FORM,
                items=(
                    Expected(
                        keys=(f"{SID}:delivered", signed_key(SENT)),
                        event="status.delivered",
                        conversation=("+15550199", "+15550100"),
                        sender="+15550199",
                    ),
                ),
            ),
            Sample(
                name="said-in-a-conversation",
                body=ADDED,
                content_type=FORM,
                items=(
                    Expected(
                        keys=("IM1:onMessageAdded", signed_key(ADDED)),
                        event="onMessageAdded",
                        conversation=("CH1",),
                        text="hello?",
                        sender="ann",
                    ),
                ),
            ),
            Sample(
                name="a-text-by-get",
                body=b"",
                method="GET",
                url=GET_URL,
                items=(
                    Expected(
                        keys=(SID, signed_key(b"", GET_URL)),
                        event="message",
                        conversation=("+15550199", "+15550100"),
                        text="a waffle maker? \u00e9",
                        sender="+15550100",
                        body=TEXT,
                    ),
                ),
            ),
            Sample(
                name="a-list-of-events",
                body=json.dumps(EVENTS).encode(),
                items=(
                    Expected(
                        keys=("EZ1",),
                        event="com.twilio.messaging.inbound-message.received",
                        conversation=("+15550199", "+15550100"),
                        text="hello?",
                        sender="+15550100",
                        body=json.dumps(EVENTS[0]).encode(),
                        dated=NOW,
                    ),
                    Expected(keys=("EZ2",), event="com.twilio.messaging.message.sent"),
                ),
            ),
        ),
        vectors=(
            vector("form", OLD_URL, "RSOYDt4T1cUTdK1PDd93/VVr8B8=", CALL),
            vector(
                "with-the-usual-port",
                OLD_URL.replace(".com", ".com:443"),
                "kvajT1Ptam85bY51eRf/AJRuM3w=",
                CALL,
            ),
            vector("signed-with-a-port", OLD_URL, "kvajT1Ptam85bY51eRf/AJRuM3w=", CALL),
            vector(
                "signed-without-the-port",
                OLD_URL.replace(".com", ".com:443"),
                "RSOYDt4T1cUTdK1PDd93/VVr8B8=",
                CALL,
            ),
            vector(
                "plain-signed-with-a-port",
                OLD_URL.replace("https", "http"),
                "0ZXoZLH/DfblKGATFgpif+LLRf4=",
                CALL,
            ),
            vector(
                "an-unusual-port",
                OLD_URL.replace("https", "http").replace(".com", ".com:1234"),
                "Zmvh+3yNM1Phv2jhDCwEM3q5ebU=",
                CALL,
            ),
            vector(
                "names-and-values-that-come-twice",
                OLD_URL,
                "IK+Dwps556ElfBT0I3Rgjkr1wJU=",
                b"Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234",
            ),
            vector(
                "json",
                f"{OLD_URL}&bodySHA256={JSON_HASH}",
                "a9nBmqA0ju/hNViExpshrM61xv4=",
                JSON_BODY,
                "application/json",
            ),
        ),
    ),
)
