"""LINE: messages of a user, a group and a room in one request, a redelivery, and the console's look."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime

from app.domain.webhook import Request, Secrets
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:  # noqa: ARG001
    digest = hmac.new(secrets.active[0], request.body, hashlib.sha256).digest()
    return with_headers(request, x_line_signature=base64.b64encode(digest).decode())


def event(id_: str, source: dict[str, str], **more: object) -> dict[str, object]:
    return {
        "type": "message",
        "mode": "active",
        "timestamp": 1796040000000,
        "source": source,
        "webhookEventId": id_,
        "deliveryContext": {"isRedelivery": False},
        **more,
    }


USER = {"type": "user", "userId": "U1"}
GROUP = {"type": "group", "groupId": "C1", "userId": "U1"}
ROOM = {"type": "room", "roomId": "R1"}
TEXT = event(
    "01FZ1",
    USER,
    replyToken="b60d432864f44d079f6d8efe86cf404b",
    message={"id": "444573844083572737", "type": "text", "text": "a waffle maker? 😀"},
)
PICTURE = event(
    "01FZ2",
    GROUP,
    replyToken="38ef843bde154d9b91c21320ffd17a0f",
    message={
        "id": "354718705033693859",
        "type": "image",
        "contentProvider": {"type": "external", "originalContentUrl": "https://a.example/1.jpg"},
    },
)
LEFT = {**event("01FZ3", ROOM), "type": "leave"}
AGAIN = {**TEXT, "deliveryContext": {"isRedelivery": True}}
PRESSED = {
    **event("01FZ4", USER, replyToken="00000000000000000000000000000001"),
    "type": "postback",
    "postback": {"data": "order=red"},
}


def body(*events: object) -> bytes:
    return json.dumps({"destination": "Ubot", "events": events}, ensure_ascii=False).encode()


def raw(one: object) -> bytes:
    return json.dumps(one, ensure_ascii=False).encode()


TOLD = Expected(
    keys=("01FZ1",),
    event="message.text",
    conversation=("user", "U1"),
    text="a waffle maker? 😀",
    sender="U1",
    reply={"reply_token": "b60d432864f44d079f6d8efe86cf404b"},
    dated=NOW,
)

CASES = (
    Case(
        sign=sign,
        secrets=Secrets((b"channel_secret",)),
        other=Secrets((b"another_secret",)),
        now=NOW,
        samples=(
            Sample(
                name="three-at-once",
                body=body(TEXT, PICTURE, LEFT),
                items=(
                    TOLD,
                    Expected(
                        keys=("01FZ2",),
                        event="message.image",
                        conversation=("group", "C1"),
                        sender="U1",
                        attachments=1,
                        body=raw(PICTURE),
                        reply={"reply_token": "38ef843bde154d9b91c21320ffd17a0f"},
                        dated=NOW,
                    ),
                    Expected(
                        keys=("01FZ3",),
                        event="leave",
                        conversation=("room", "R1"),
                        body=raw(LEFT),
                        dated=NOW,
                    ),
                ),
            ),
            Sample(
                name="one-of-them-again",
                body=body(AGAIN),
                facts={"isRedelivery": "true"},
                items=(TOLD,),
            ),
            Sample(
                name="a-postback",
                body=body(PRESSED),
                items=(
                    Expected(
                        keys=("01FZ4",),
                        event="postback",
                        conversation=("user", "U1"),
                        text="order=red",
                        sender="U1",
                        reply={"reply_token": "00000000000000000000000000000001"},
                    ),
                ),
            ),
            Sample(name="the-console-looks", body=body()),
        ),
        vectors=(
            Vector(
                name="library",
                source="line-bot-sdk-python, tests of its signature validator",
                request=Request(
                    method="POST",
                    public_url=URL,
                    headers={"x-line-signature": "/gg9a+LvFevTH1sd7XCQycD7tsWclCsInj7MhBHxN7k="},
                    body=b"bodybodybodybody",
                ),
                secrets=Secrets((b"channel_secret",)),
                now=NOW,
            ),
        ),
    ),
)
