"""Webhook providers, one for each replica: they retry until they are acknowledged, and send more than they should.

Twins in parallel, the same again later, another body under the same key, and requests that must be refused. Every
request is written down before its first byte and after its answer.
"""

import asyncio
import json
import random
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import aiohttp

from tests.history.log import Log, PostAnswered, Posted, encode, now

ANSWER_SECONDS_MAX = 6.0
PAUSE_SECONDS = 0.1
TRIES_MAX = 2000
REMEMBERED_MAX = 400
# Few where inbound are joined, so that they are.
CONVERSATIONS = {"support": 60, "chat": 15}
SETTLED = (200, 202)


@dataclass(frozen=True, slots=True)
class Event:
    """What a provider has to tell. `payload` is spelled as no library would."""

    key: str
    queue: str
    payload: bytes
    conversation: str | None = None
    delay_seconds: float | None = None
    priority: int = 0

    @property
    def body(self) -> bytes:
        """The request's body."""
        fields = {
            "queue": self.queue,
            "conversation": self.conversation,
            "delay_seconds": self.delay_seconds,
            "priority": self.priority,
        }
        return json.dumps(fields).encode()[:-1] + b', "payload": %b}' % self.payload


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request and how it ended, for the figures."""

    replica: str
    began_at: float
    ended_at: float
    status: int | None


@dataclass(slots=True)
class Ledger:
    """What all providers of a run share: `turns` are those they were given lately; `findings` what should not be."""

    log: Log
    session: aiohttp.ClientSession
    key: str
    attempts: list[Attempt] = field(default_factory=list)
    turns: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED_MAX))
    acknowledged: int = 0
    findings: list[str] = field(default_factory=list)

    async def post(
        self, event: Event, url: str, *, body: bytes | None = None
    ) -> tuple[int | None, dict[str, object]]:
        """One request. Status None when there was no whole answer in time."""
        post = Posted(
            post=secrets.token_hex(8),
            at=now(),
            replica=url,
            scope=f"queue/{event.queue}",
            key=event.key,
            body_base64=encode(event.payload),
            conversation=event.conversation,
        )
        self.log(post)
        headers = {
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json",
            "Idempotency-Key": event.key,
        }
        status, answer = None, dict[str, object]()
        try:
            async with (
                asyncio.timeout(ANSWER_SECONDS_MAX),
                self.session.post(
                    f"{url}/v1/inbound", data=body or event.body, headers=headers
                ) as got,
            ):
                content = await got.read()
                answer = json.loads(content) if content.startswith(b"{") else {}
                status = got.status
        except (aiohttp.ClientError, OSError, TimeoutError):
            pass
        self.log(_answered(post, status, answer))
        self.attempts.append(Attempt(url, post.at, now(), status))
        if status in SETTLED:
            self.turns.append(str(answer["turn"]))
        return status, answer


def _answered(post: Posted, status: int | None, answer: dict[str, object]) -> PostAnswered:
    def text(name: str) -> str | None:
        value = answer.get(name)
        return value if isinstance(value, str) else None

    return PostAnswered(
        post=post.post,
        at=now(),
        status=status,
        inbound=text("id"),
        turn=text("turn"),
        state=text("state"),
        duplicate=bool(answer["duplicate"]) if "duplicate" in answer else None,
        code=text("code"),
    )


@dataclass(slots=True)
class Provider:
    """Tells events to its own replica first, and to the others when that does not answer."""

    name: str
    urls: list[str]
    ledger: Ledger
    rng: random.Random
    told: int = 0

    async def work(self, go_on: Callable[[], bool], *, pause_seconds: Callable[[], float]) -> None:
        """Tell one event after the other, while it may."""
        while go_on():
            await self.misbehave(self.event())
            await asyncio.sleep(pause_seconds())

    def event(self) -> Event:
        """A new one."""
        self.told += 1
        n, rng = self.told, self.rng
        spelled = b'{ "n":%d,  "text" : "caf\\u00e9 \xe2\x98\x95",\n"who": "%b", "n2": 1.50 }'
        queue = rng.choice(list(CONVERSATIONS))
        person = f"person {rng.randrange(CONVERSATIONS[queue])}"
        return Event(
            key=f"{self.name}-{n}",
            queue=queue,
            payload=spelled % (n, self.name.encode()),
            conversation=person if rng.random() < 0.85 else None,
            delay_seconds=0.3 if rng.random() < 0.05 else None,
            priority=rng.choice((0, 0, 0, 5)),
        )

    async def misbehave(self, event: Event) -> None:
        """Tell an event until it is acknowledged, in one of the ways of providers."""
        chance = self.rng.random()
        if chance < 0.02:
            # Refused, and absent for ever: nothing of it may be kept.
            await self.ledger.post(event, self.urls[0], body=b'{"payload": 1, "payload": 2}')
            return
        if chance < 0.12:
            async with asyncio.TaskGroup() as group:
                for start in range(2):
                    group.create_task(self.tell(event, start_at=start))
        else:
            await self.tell(event)
        if chance > 0.92:
            await self.tell(event, start_at=1)
        if chance > 0.97:
            other = replace(event, payload=b'{"another": "body"}')
            status, answer = await self.ledger.post(other, self.urls[0])
            if status not in {None, 422, 503}:
                self.ledger.findings.append(f"{other.key} with another body: {status} {answer}")

    async def tell(self, event: Event, *, start_at: int = 0) -> None:
        """Send one event until it is acknowledged."""
        status, answer = None, dict[str, object]()
        for tried in range(TRIES_MAX):
            # Its own replica is asked again and again: that is how long it takes to come back.
            url = self.urls[(start_at + tried) % len(self.urls) if tried % 2 else start_at]
            status, answer = await self.ledger.post(event, url)
            if status in SETTLED:
                self.ledger.acknowledged += 1
                return
            if status not in {None, 503}:
                break
            await asyncio.sleep(PAUSE_SECONDS)
        self.ledger.findings.append(f"{event.key} was not acknowledged: {status} {answer}")
