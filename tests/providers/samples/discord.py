"""Discord: commands, buttons, forms, autocompletion, PINGs of both products, and webhook events with an echo."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.domain.webhook import Reply, Request, Secrets
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
# The first is the one in use, and the second the next one.
PUBLIC = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
NEXT = Ed25519PrivateKey.from_private_bytes(b"1" * 32).public_key().public_bytes_raw().hex()
ID = str(((int(NOW.timestamp()) * 1000 - 1_420_070_400_000) << 22) + 7)
TOKEN = "aW50ZXJhY3Rpb246MTIz.token"
LATER = Reply(200, b'{"type":5}', "application/json")
NOTED = Reply(204, b"", "application/json")


def sign(request: Request, _secrets: Secrets, now: datetime) -> Request:
    time = str(int(now.timestamp()))
    made = PRIVATE.sign(time.encode() + request.body).hex()
    return with_headers(request, x_signature_timestamp=time, x_signature_ed25519=made)


def interaction(type_: int, **fields: object) -> bytes:
    return json.dumps(
        {
            "id": ID,
            "application_id": "A1",
            "type": type_,
            "token": TOKEN,
            "guild_id": "G1",
            "channel_id": "C1",
            "channel": {"id": "C1"},
            "member": {"user": {"id": "U1", "username": "ann"}},
            "version": 1,
            **fields,
        }
    ).encode()


def event(type_: str, **data: object) -> bytes:
    inner = {"type": type_, "timestamp": "2026-11-30T12:00:00.000000", "data": data}
    return json.dumps({"version": 1, "application_id": "A1", "type": 1, "event": inner}).encode()


def expected(event: str, text: str, **more: Any) -> Expected:
    return Expected(
        **{
            "keys": (ID,),
            "event": event,
            "conversation": ("G1", "C1"),
            "text": text,
            "sender": "U1",
            "reply": {"application_id": "A1", "token": TOKEN},
            "dated": NOW,
            **more,
        }
    )


ORDER = interaction(
    2,
    data={
        "name": "order",
        "type": 1,
        "options": [
            {
                "name": "add",
                "type": 1,
                "options": [
                    {"name": "what", "type": 3, "value": "a red one"},
                    {"name": "count", "type": 4, "value": 2},
                    {"name": "gift", "type": 5, "value": True},
                ],
            }
        ],
        "resolved": {
            "attachments": {"F1": {"id": "F1", "filename": "a.png", "url": "https://a.example/1"}}
        },
    },
)
AUTHORIZED = event("APPLICATION_AUTHORIZED", user={"id": "U1"}, scopes=["applications.commands"])
SAID = event(
    "LOBBY_MESSAGE_CREATE", id="M1", content="hello?", channel_id="C2", author={"id": "U1"}
)
ECHO = event(
    "LOBBY_MESSAGE_CREATE", id="M2", content="hello!", channel_id="C2", author={"id": "A1"}
)


def key_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


SAMPLES = (
    Sample(
        name="a-command",
        body=ORDER,
        items=(
            expected(
                "command", "/order add what:a red one count:2 gift:true", body=ORDER, attachments=1
            ),
        ),
        reply=LATER,
    ),
    Sample(
        name="a-message-that-a-command-was-chosen-for",
        body=interaction(
            2,
            data={
                "name": "Answer this",
                "type": 3,
                "target_id": "M1",
                "resolved": {"messages": {"M1": {"id": "M1", "content": "a waffle maker?"}}},
            },
        ),
        items=(expected("command", "a waffle maker?"),),
        reply=LATER,
    ),
    Sample(
        name="a-choice-in-a-direct-message",
        body=interaction(
            3,
            guild_id=None,
            member=None,
            user={"id": "U1"},
            data={"custom_id": "colour", "component_type": 3, "values": ["red", "blue"]},
        ),
        items=(expected("component", "red blue", conversation=("", "C1", "U1")),),
        reply=LATER,
    ),
    Sample(
        name="a-form",
        body=interaction(
            5,
            data={
                "custom_id": "address",
                "components": [
                    {
                        "type": 1,
                        "components": [{"type": 4, "custom_id": "a", "value": "Main St 1"}],
                    },
                    {
                        "type": 18,
                        "component": {"type": 4, "custom_id": "b", "value": "Springfield"},
                    },
                ],
            },
        ),
        items=(expected("modal", "Main St 1\nSpringfield"),),
        reply=LATER,
    ),
    Sample(
        name="while-somebody-types",
        body=interaction(4, data={"name": "order", "options": []}),
        ignored={"autocomplete": 1},
        reply=Reply(200, b'{"type":8,"data":{"choices":[]}}', "application/json"),
    ),
    Sample(
        name="a-ping",
        body=interaction(1),
        reply=Reply(200, b'{"type":1}', "application/json"),
    ),
    Sample(
        name="a-ping-of-events",
        body=b'{"version": 1, "application_id": "A1", "type": 0}',
        reply=NOTED,
    ),
    Sample(
        name="an-event",
        body=AUTHORIZED,
        items=(
            Expected(
                keys=(key_of(AUTHORIZED),),
                event="APPLICATION_AUTHORIZED",
                sender="U1",
                body=AUTHORIZED,
                dated=NOW,
            ),
        ),
        reply=NOTED,
    ),
    Sample(
        name="said-in-a-lobby",
        body=SAID,
        items=(
            Expected(
                keys=(key_of(SAID),),
                event="LOBBY_MESSAGE_CREATE",
                conversation=("", "C2"),
                text="hello?",
                sender="U1",
            ),
        ),
        reply=NOTED,
    ),
    Sample(
        name="our-own-message",
        body=ECHO,
        items=(
            Expected(
                keys=(key_of(ECHO),),
                event="LOBBY_MESSAGE_CREATE",
                conversation=("", "C2"),
                text="hello!",
                sender="A1",
                is_echo=True,
            ),
        ),
        reply=NOTED,
    ),
)
VECTOR = Vector(
    name="computed",
    source="no published one: computed from the documented scheme with a seed of 00 01 02 ... 1f",
    request=Request(
        method="POST",
        public_url=URL,
        headers={
            "x-signature-timestamp": "1700000000",
            "x-signature-ed25519": "c1098e97d711377f30225d53d94b89d43537f92e5b3afaddc590781b1f9f9d4b"
            "2eeab335d370be3b9a090bc61a85b86448bc140dcd195f1569c2bff181257607",
        },
        body=b'{"type":1}',
    ),
    secrets=Secrets(),
    now=NOW,
    options={"public_keys": [PUBLIC]},
)

CASES = (
    Case(
        sign=sign,
        secrets=Secrets(),
        other=Secrets(),
        now=NOW,
        samples=SAMPLES,
        options={"public_keys": [NEXT, PUBLIC]},
        vectors=(VECTOR,),
    ),
    Case(
        sign=sign,
        secrets=Secrets(),
        other=Secrets(),
        now=NOW,
        samples=SAMPLES[:1],
        options={"public_keys": [PUBLIC, NEXT], "tolerance_seconds": 300},
    ),
)
