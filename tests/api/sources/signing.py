"""A service with sources of several kinds, and what signs for them as their providers do."""

import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.settings import Filter, Queue, Server, Source
from tests.api.conftest import EMPTY, Answer, Service, opened
from tests.database import Clock
from tests.engine.invariants import broken

if TYPE_CHECKING:
    from tests.database import Admin

SECRET = b"one-signing-secret"
RESPONSE_URL = "https://hooks.slack.com/actions/T1/123/c4n4ry"


@dataclass(slots=True)
class Sources:
    """A service with sources, and what signs for them."""

    service: Service
    folder: Path

    async def post(
        self, source: str, body: bytes, *, method: str = "POST", **headers: str
    ) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        path = f"/v1/sources/{source}"
        return await self.service.call(method, path, scope=None, body=body, headers=named)

    async def slack(
        self, source: str, body: bytes, *, secret: bytes = SECRET, **more: str
    ) -> Answer:
        now = more.pop("now", str(int(time.time())))  # noqa: TID251 - as a provider's clock
        digest = hmac.new(secret, b"v0:" + now.encode() + b":" + body, hashlib.sha256).hexdigest()
        signed = {"x_slack_request_timestamp": now, "x_slack_signature": f"v0={digest}"}
        return await self.post(
            source, body, **{"content_type": "application/json", **signed, **more}
        )

    async def plain(self, source: str, value: object, *, secret: bytes = SECRET) -> Answer:
        body = json.dumps(value).encode()
        digest = hmac.new(secret, body, hashlib.sha256).hexdigest()
        return await self.post(source, body, x_signature=digest)

    async def turns(self, queue: str = "default") -> list[dict[str, Any]]:
        """What agents are given."""
        answer = await self.service.claim(queue=queue, max_turns=50)
        turns: list[dict[str, Any]] = answer.json["turns"]
        return turns

    async def shown(self, source: str) -> dict[str, Any]:
        """One source, as the list shows it."""
        items = (await self.service.get("/v1/sources")).json["items"]
        (found,) = [one for one in items if one["name"] == source]
        shown: dict[str, Any] = found
        return shown

    def counted(self, source: str, result: str, *, what: str = "requests") -> float:
        """How many, by the metric."""
        name = f"sinksweep_source_{what}_total"
        registry = self.service.core.metrics.registry
        return registry.get_sample_value(name, {"source": source, "result": result}) or 0.0


@asynccontextmanager
async def open_sources(database_url: str, folder: Path) -> AsyncIterator[Sources]:
    """A running service with a dozen sources, whose secrets are in this folder."""
    (folder / "one").write_bytes(SECRET + b"\n")
    here = (f"file:{folder}/one",)
    by_hmac = {"kind": "hmac", "secrets": here, "signature_header": "X-Signature"}
    own = {
        "chat": Source(kind="slack", secrets=here, reply_to="loopback"),
        "chatty": Source(kind="slack", secrets=here, queue="chatty"),
        "rotating": Source(kind="slack", secrets=(*here, f"file:{folder}/two")),
        "absent": Source(kind="telegram", secrets=(f"file:{folder}/nothing",)),
        "bot": Source(kind="telegram", secrets=here, body_bytes_max=2048),
        "other-bot": Source(kind="telegram", secrets=here),
        "events": Source.model_validate(
            by_hmac | {"id_path": "id", "conversation_path": "about", "event_path": "type"}
        ),
        "wrong-path": Source.model_validate(by_hmac | {"id_path": "account"}),
        "picky": Source(
            kind="slack", secrets=here, filter=Filter(keep=("message*",), drop=("*.channel_join",))
        ),
        "echoing": Source(kind="slack", secrets=here, echoes="keep"),
        "money": Source(kind="stripe", secrets=here),
        "full": Source.model_validate(by_hmac | {"id_path": "id", "queue": "small"}),
    }
    queues = {
        "default": Queue(),
        "chatty": Queue(coalesce_quiet_seconds=5.0),
        "small": Queue(length_max=1),
    }
    server = Server(public_url="https://in.example/base")
    async with opened(database_url, sources=own, queues=queues, server=server) as running:
        yield Sources(running, folder)


def said(event_id: str, text: str = "a waffle maker?", ts: str = "1.1", **more: Any) -> bytes:
    event = {"type": "message", "channel": "C1", "user": "U1", "text": text, "ts": ts, **more}
    envelope = {
        "type": "event_callback", "team_id": "T1", "api_app_id": "A1", "event_id": event_id, "event": event,
    }  # fmt: skip
    return json.dumps(envelope).encode()


def update(number: int, text: str = "hi") -> bytes:
    chat, sender = {"id": 7}, {"id": 7}
    message = {"message_id": 1, "chat": chat, "from": sender, "text": text}
    return json.dumps({"update_id": number, "message": message}).encode()


@asynccontextmanager
async def emptied(sources: Sources, admin: "Admin") -> AsyncIterator[Sources]:
    """The same on an empty database. When the context is over, everything that must always hold is checked."""
    await admin.execute(EMPTY)
    await Clock(admin).travel(0)
    yield sources
    assert await broken(admin) == {}
