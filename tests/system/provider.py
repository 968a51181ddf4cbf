"""A webhook provider: sends every event until it is acknowledged, sometimes again after that, and remembers it all."""

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import aiohttp

from tests.system.rig import Service

TRIES_MAX = 400
PAUSE_SECONDS = 0.05
# Longer than the service may take to answer, whatever happens to it.
ANSWER_SECONDS_MAX = 8.0


@dataclass(frozen=True, slots=True)
class Event:
    """What a provider has to tell: a key, the payload's exact bytes, and a conversation or none."""

    key: str
    payload: bytes
    conversation: str | None = None

    @property
    def body(self) -> bytes:
        """The request's body."""
        lane = json.dumps(self.conversation).encode()
        return b'{"queue": "support", "conversation": %b, "payload": %b}' % (lane, self.payload)


def events(count: int, *, conversations: int, name: str = "event") -> list[Event]:
    """Events over some conversations; their JSON is spelled as no library would."""
    return [
        Event(
            f"{name}-{n}",
            b'{ "n":%d,  "text" : "caf\\u00e9 \xe2\x98\x95",\n"n2": 1.50 }' % n,
            f"person {n % conversations}" if conversations else None,
        )
        for n in range(count)
    ]


@dataclass(slots=True)
class Provider:
    """Sends events to some replicas; `handles` are the ids that each acknowledged key was given."""

    services: Sequence[Service]
    handles: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    payloads: dict[str, bytes] = field(default_factory=dict)
    refused: list[int] = field(default_factory=list)
    slowest_seconds: float = 0.0
    _acknowledged: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_for(self, count: int, *, seconds_max: float = 30.0) -> None:
        """Return once this many events are acknowledged."""
        async with asyncio.timeout(seconds_max):
            while len(self.handles) < count:
                self._acknowledged.clear()
                await self._acknowledged.wait()

    async def send(self, event: Event, *, start_at: int = 0) -> None:
        """Send one event until it is acknowledged."""
        self.payloads[event.key] = event.payload
        loop = asyncio.get_running_loop()
        for tried in range(TRIES_MAX):
            service = self.services[(start_at + tried) % len(self.services)]
            began = loop.time()
            try:
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    answer = await service.post(
                        "/v1/inbound", event.body, idempotency_key=event.key
                    )
            except aiohttp.ClientError:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            self.slowest_seconds = max(self.slowest_seconds, loop.time() - began)
            if answer.status in (200, 202):
                handle = (answer.json["id"], answer.json["turn"])
                self.handles.setdefault(event.key, set()).add(handle)
                self._acknowledged.set()
                return
            self.refused.append(answer.status)
            assert answer.status == 503, (answer.status, answer.body)
            assert int(answer.headers["Retry-After"]) >= 1
            await asyncio.sleep(PAUSE_SECONDS)
        raise AssertionError(f"{event.key} was never acknowledged")

    async def storm(
        self,
        told: Sequence[Event],
        *,
        workers: int,
        jitter: random.Random,
        again: float = 0.2,
        also_until: Callable[[], bool] = lambda: True,
    ) -> None:
        """Send all events from many connections at once, some of them twice."""
        waiting = [*told, *(event for event in told if jitter.random() < again)]
        # Those of one conversation start in order: a provider has no more to promise.
        waiting.reverse()

        async def work(number: int) -> None:
            while waiting:
                await self.send(waiting.pop(), start_at=number)

        async with asyncio.TaskGroup() as group:
            for number in range(workers):
                group.create_task(work(number))
        assert also_until()
