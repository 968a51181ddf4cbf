"""A service of one source `chat` and one destination `answers`, and what all conversations have in common."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from app.domain.webhook import Request, Secrets
from tests.providers.cases import cases_of
from tests.system.chats import CANARY, TEXTS
from tests.system.conftest import configuration
from tests.system.processes import POLL_SECONDS, Answer, Json, Service
from tests.system.rig import Rig
from tests.system.searching import places
from tests.system.verdict import faults

if TYPE_CHECKING:
    from tests.database import Admin

# Telegram takes no other signs in its secret.
SIGNING = f"{CANARY}-signing"
RETRIES = 20


@dataclass(frozen=True, slots=True)
class Place:
    """One source as its provider knows it."""

    service: Service
    kind: str

    async def post(self, body: bytes, content_type: str, now: int) -> Answer:
        """Sign a body as the provider does, at this moment in seconds, and send it."""
        path = "/v1/sources/chat"
        request = Request(
            method="POST",
            public_url=f"https://in.example{path}",
            headers={"content-type": content_type},
            body=body,
        )
        signed = self.sign(request, now)
        session = self.service.session
        assert session is not None
        async with session.post(
            self.service.url + path, data=signed.body, headers=dict(signed.headers)
        ) as came:
            return Answer(came.status, dict(came.headers), await came.read())

    def sign(self, request: Request, now: int) -> Request:
        """As its provider does."""
        sign = cases_of(self.kind)[0].sign
        return sign(request, Secrets((SIGNING.encode(),)), datetime.fromtimestamp(now, UTC))

    async def comes_once(
        self, body: bytes, content_type: str, now: int, changed: tuple[bytes, bytes]
    ) -> None:
        """Send it many times at once, then otherwise under its key, and each time be thanked."""
        async with asyncio.TaskGroup() as group:
            same = [group.create_task(self.post(body, content_type, now)) for _ in range(RETRIES)]
        assert {one.result().status for one in same} == {200}
        mutated = body.replace(*changed)
        assert mutated != body
        assert (await self.post(mutated, content_type, now)).status == 200


async def stage(
    rig: Rig, kind: str, *, source: str, destination_kind: str, destination: str, token: str
) -> Place:
    """Start the service; `FOLDER` in `source` is where its secrets are."""
    (rig.folder / "signing").write_text(SIGNING)
    (rig.folder / "token").write_text(token)
    (rig.folder / "verify").write_text(f"{CANARY}-verify")
    more = f"""
[sources.chat]
kind = "{kind}"
queue = "support"
reply_to = "answers"
{source.replace("FOLDER", str(rig.folder))}

[destinations.answers]
kind = "{destination_kind}"
backoff_seconds = 0.1
backoff_seconds_max = 0.3
{destination}
"""
    text = configuration("http://127.0.0.1:1/", more=more)
    rig.configure(text.replace("[server]", '[server]\npublic_url = "https://in.example"'))
    return Place(await rig.serve("all"), kind)


def from_file(rig: Rig, name: str) -> str:
    """A pointer to `signing` or `token`, as a configuration spells it."""
    return f'"file:{rig.folder}/{name}"'


async def claimed(service: Service) -> tuple[Json, bytes]:
    """The only turn that there is, with its only inbound; and the answer that it came in."""
    wish = {"queue": "support", "agent": "a", "max_turns": 10, "wait_seconds": 5}
    answer = await service.post("/v1/turns/claim", wish)
    (turn,) = answer.json["turns"]
    assert len(turn["inbound"]) == 1
    return turn, answer.body


async def seals(service: Service, turn: Json, *payloads: Mapping[str, object]) -> Answer:
    """Seal messages that say nothing of where they go."""
    messages = [{"payload": payload} for payload in payloads]
    body = {"lease_token": turn["lease_token"], "messages": messages}
    return await service.post(f"/v1/turns/{turn['id']}/seal", body)


async def says_both(service: Service, turn: Json, **more: object) -> None:
    """Seal the two texts."""
    answer = await seals(service, turn, *({"text": text, **more} for text in TEXTS))
    assert answer.status == 200, answer.body


async def replied(admin: "Admin") -> list[Any]:
    """Wait until the only turn is replied: what was sent, in its order."""
    states = None
    try:
        async with asyncio.timeout(25):
            while states != ["replied"]:
                await asyncio.sleep(POLL_SECONDS)
                states = [row[0] for row in await admin.fetch("select state from sink.turn")]
    except TimeoutError:
        rows = await admin.fetch("select state, last_error, attempts from sink.outbox")
        raise AssertionError(f"{states}: {rows}") from None
    return await admin.fetch("select * from sink.outbox order by position")


async def nothing_is_shown(
    place: Place, admin: "Admin", *, kept: Mapping[str, set[str]] | None = None
) -> None:
    """End the service. No log, no metric and no column shows a secret, but for the columns that are for it."""
    service = place.service
    metrics = (await service.get("/metrics")).body.decode()
    assert await service.stop() == 0
    shown = metrics + service.log.read_text()
    for canary, columns in {CANARY: set[str](), **(kept or {})}.items():
        assert canary not in shown
        assert await places(admin, canary) == columns, canary
    assert await faults(admin) == []


async def counted(service: Service, name: str, **labels: str) -> float:
    """A metric's value; 0 where it is not there yet."""
    for line in (await service.get("/metrics")).body.decode().splitlines():
        shown, _, value = line.rpartition(" ")
        if shown.startswith(f"{name}{{") and all(f'{k}="{v}"' in shown for k, v in labels.items()):
            return float(value)
    return 0.0
