"""Zoom: a meeting, a recording, a chat message of our own, and the question for the URL."""

import hashlib
import hmac
import json
from datetime import UTC, datetime

from app.domain.webhook import Reply, Request, Secrets
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:
    time = str(int(now.timestamp()))
    signed = b"v0:" + time.encode() + b":" + request.body
    digest = hmac.new(secrets.active[0], signed, hashlib.sha256).hexdigest()
    return with_headers(request, x_zm_request_timestamp=time, x_zm_signature=f"v0={digest}")


def event(name: str, **payload: object) -> bytes:
    return json.dumps({"event": name, "event_ts": 1796040000000, "payload": payload}).encode()


def key(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()


STARTED = event(
    "meeting.started",
    account_id="acc",
    operator="ada@acme.example",
    object={"id": 1234567890, "uuid": "u==", "topic": "Waffles", "host_id": "h1"},
)
RECORDED = event(
    "recording.completed",
    account_id="acc",
    object={
        "id": 1234567890,
        "topic": "Waffles",
        "host_id": "h1",
        "recording_files": [
            {"id": "r1", "download_url": "https://zoom.example/r1", "file_type": "MP4"},
            {"id": "r2"},
        ],
    },
)
OWN = event(
    "chat_message.sent",
    account_id="acc",
    operator="bot@acme.example",
    operator_id="botid",
    object={"id": "m1", "message": "We have a red one."},
)
QUESTION = event("endpoint.url_validation", plainToken="qgg8vlvZRS6UYooatFL8Aw")

CASES = (
    Case(
        sign=sign,
        secrets=Secrets((b"test-secret",)),
        other=Secrets((b"another-secret",)),
        now=NOW,
        options={"own_operators": ["botid"]},
        samples=(
            Sample(
                name="a-meeting",
                body=STARTED,
                headers={"x-zm-trackingid": "v=2.0;clid=x"},
                items=(
                    Expected(
                        keys=(key(STARTED),),
                        event="meeting.started",
                        conversation=("acc", "1234567890"),
                        text="Waffles",
                        sender="ada@acme.example",
                        body=STARTED,
                        dated=NOW,
                    ),
                ),
            ),
            Sample(
                name="a-recording",
                body=RECORDED,
                items=(
                    Expected(
                        keys=(key(RECORDED),),
                        event="recording.completed",
                        conversation=("acc", "1234567890"),
                        text="Waffles",
                        sender="h1",
                        attachments=1,
                    ),
                ),
            ),
            Sample(
                name="what-we-said",
                body=OWN,
                items=(
                    Expected(
                        keys=(key(OWN),),
                        event="chat_message.sent",
                        conversation=("acc", "m1"),
                        text="We have a red one.",
                        sender="botid",
                        is_echo=True,
                    ),
                ),
            ),
            Sample(
                name="the-question-for-the-url",
                body=QUESTION,
                reply=Reply(
                    200,
                    b'{"plainToken": "qgg8vlvZRS6UYooatFL8Aw", "encryptedToken": '
                    b'"82079ed66225fed153e0854735aa9702e1d67137a69c96a00957941f942b8de7"}',
                    "application/json",
                ),
            ),
        ),
        vectors=(
            Vector(
                name="computed-elsewhere",
                source="none is published: HMAC-SHA256 of v0:1700000000:{body}, computed by hand",
                request=Request(
                    method="POST",
                    public_url=URL,
                    headers={
                        "content-type": "application/json",
                        "x-zm-request-timestamp": "1700000000",
                        "x-zm-signature": "v0=8429be9e0d7bdcafb444236fd24e321fcf4ec3f1d460db5a392366a784b25574",
                    },
                    body=b'{"hello":"world"}',
                ),
                secrets=Secrets((b"test-secret",)),
                now=datetime.fromtimestamp(1700000000, UTC),
            ),
        ),
    ),
)
