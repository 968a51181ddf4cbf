"""What the kinds of one provider share: its signature, its handshake, and the messages of its chats."""

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

from app.domain.webhook import Reply, Request, Secrets
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
TOKENS = {"verify_tokens": ["env:META_VERIFY_TOKEN"]}


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:
    """As all of its kinds are signed; a handshake is not."""
    del now
    if request.method == "GET":
        return request
    digest = hmac.new(secrets.active[0], request.body, hashlib.sha256).hexdigest()
    return with_headers(request, x_hub_signature_256=f"sha256={digest}")


VECTOR = Vector(
    name="computed",
    source="no published one: computed from the documented scheme",
    request=Request(
        method="POST",
        public_url=URL,
        headers={
            "x-hub-signature-256": "sha256="
            "84cc33df716ed0b0598f07437c94069ace3730358778a592bd6bbd1423d111f3"
        },
        body=b'{"hello":"world"}',
    ),
    secrets=Secrets((b"test-secret",)),
    now=NOW,
    options=TOKENS,
)


def told(**fields: object) -> dict[str, object]:
    """Something that a user told a page, or an account."""
    return {
        "sender": {"id": "U1"},
        "recipient": {"id": "P1"},
        "timestamp": 1796040000000,
        **fields,
    }


def posted(kind: str, **entry: object) -> bytes:
    """A request with one entry; `kind` is what it is an object of."""
    whole = {"object": kind, "entry": [{"id": "P1", "time": 1796040001000, **entry}]}
    return json.dumps(whole).encode()


def key_of(one: dict[str, object]) -> str:
    """The key of what has no id of its own."""
    body = b"P1\n\n" + json.dumps(one).encode()
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def expected(key: str, event: str, **fields: Any) -> Expected:
    """What is to be read of something that a user told, or that was told to one."""
    usual = {"conversation": ("P1", "U1"), "sender": "U1"}
    return Expected(keys=(key,), event=event, **{**usual, **fields})


SAID = told(message={"mid": "m_1", "text": "a waffle maker?"})
SHOWN = told(
    message={
        "mid": "m_2",
        "attachments": [{"type": "image", "payload": {"url": "https://a.example/1"}}],
    }
)
LOVED = told(reaction={"reaction": "love", "emoji": "\u2764", "action": "react", "mid": "m_9"})
BUTTON = told(postback={"mid": "m_3", "title": "Red", "payload": "ORDER_RED"})
ECHO = {
    **told(message={"mid": "m_4", "text": "We have a red one.", "is_echo": True, "app_id": 7}),
    "sender": {"id": "P1"},
    "recipient": {"id": "U1"},
}


def case_of(kind: str, *own: Sample) -> Case:
    """The case of a kind of chat: what all of them have, and what only this one has."""
    return Case(
        sign=sign,
        secrets=Secrets((b"app-secret",), {"verify_tokens": (b"told-once",)}),
        other=Secrets((b"another-app-secret",)),
        now=NOW,
        options=TOKENS,
        samples=(
            Sample(
                name="several-in-one-request",
                body=posted(kind, messaging=[SAID, SHOWN, LOVED]),
                items=(
                    expected(
                        "m_1",
                        "message",
                        text="a waffle maker?",
                        body=json.dumps(SAID).encode(),
                        dated=NOW,
                    ),
                    expected("m_2", "message", attachments=1, body=json.dumps(SHOWN).encode()),
                    expected(
                        key_of(LOVED), "reaction", text="\u2764", body=json.dumps(LOVED).encode()
                    ),
                ),
            ),
            Sample(
                name="a-button",
                body=posted(kind, messaging=[BUTTON]),
                items=(expected("m_3", "postback", text="ORDER_RED"),),
            ),
            Sample(
                name="our-own-message",
                body=posted(kind, messaging=[ECHO]),
                items=(
                    expected("m_4", "echo", text="We have a red one.", sender="P1", is_echo=True),
                ),
            ),
            *own,
            Sample(
                name="the-handshake",
                body=b"",
                method="GET",
                url=f"{URL}?hub.mode=subscribe&hub.challenge=42&hub.verify_token=told-once",
                reply=Reply(200, b"42", "text/plain; charset=utf-8"),
            ),
        ),
        vectors=(VECTOR,),
    )
