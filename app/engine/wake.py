"""Wake-ups: who waits for work is told at once, in this process and in the others. Polling remains the truth.

Nothing is promised: a wake-up may come for nothing, and may be lost. They leave after the commit, over a connection of
their own, gathered for a moment, so that no verb pays for them. The listening connection is proved alive by its own
echo; while it is not, everybody polls. Whoever hears of another for the first time answers with an echo, so that all
know of each other; a process that knows of no other tells nobody anything, and wakes everybody once when one comes.
"""

import asyncio
import contextlib
import json
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from app.engine.database import DatabaseOptions, session_settings
from app.engine.statements import load

if TYPE_CHECKING:
    from asyncpg import Connection, Record

SQL = load(__file__)

CHANNEL = "sinksweep"
OUTBOX = "outbox"
# What the sweep sees to at once: who is to be told, and what follows.
SWEEP = "sweep"
# What is to be sent once more.
RESEND = "resend"
# Whoever waits for this hears that something was told, whatever it was.
ANYTHING = "anything"
EVERYBODY = "*"
_PAYLOAD_BYTES_MAX = 7900
_UNTOLD_MAX = 1000
_GATHER_SECONDS = 0.01
_ECHO_SECONDS = 10.0
# How long those who are there have to answer somebody new.
_ANSWER_SECONDS = 1.0
_RECONNECT_SECONDS = 0.5
_RECONNECT_SECONDS_MAX = 10.0

log = logging.getLogger(__name__)


def queue_topic(queue: str) -> str:
    """What claims of a queue wait for."""
    return f"queue/{queue}"


def turn_topic(turn: UUID) -> str:
    """What those who watch a turn wait for."""
    return f"turn/{turn.hex}"


class Wakes:
    """Tells those who wait. One for each process."""

    def __init__(self, options: DatabaseOptions) -> None:
        self._options = options
        self._me = secrets.token_hex(8)
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._untold: set[str] = set()
        self._something = asyncio.Event()
        self._heard_at: float | None = None
        # Until when each other is taken to be there; and until when there may be some who have not answered yet.
        self._others: dict[str, float] = {}
        self._answers_until: float | None = None
        # Whether something was not told to others: nobody was there, or it was lost with the connection.
        self._kept_back = False
        # What those who look on hear: of each connection, and of each notification.
        self.on_connected: Callable[[], None] = lambda: None
        self.on_heard: Callable[[], None] = lambda: None
        # How far this machine's clock is ahead of the server's, to half of a round trip; None until it was asked.
        self.clock_ahead_seconds: float | None = None

    @property
    def listening(self) -> bool:
        """Whether other processes are heard: the connection has given back its own echo lately."""
        heard = self._heard_at
        return heard is not None and time.monotonic() - heard < 3 * _ECHO_SECONDS

    @property
    def alone(self) -> bool:
        """Whether no other process has been heard of for so long that there is none."""
        until, now = self._answers_until, time.monotonic()
        if not self.listening or until is None or now < until:
            return False
        return all(other < now for other in self._others.values())

    def rest_seconds(self, seconds: float, *, heard_seconds: float) -> float:
        """How long to rest between two polls that find nothing: `heard_seconds`, if longer, while others are heard.

        A poll is then only there for what got lost on its way.
        """
        return max(seconds, heard_seconds) if self.listening else seconds

    def tell(self, *topics: str) -> None:
        """Wake who waits for any of these topics, here now and elsewhere soon."""
        self.wake_here(*topics)
        if self.alone:
            self._kept_back = True
            return
        self._untold.update(topics)
        if len(self._untold) > _UNTOLD_MAX:
            # While nobody can be told there is no end of turns.
            self._untold = {EVERYBODY}
        self._something.set()

    def wake_here(self, *topics: str) -> None:
        """Wake who waits in this process alone."""
        for topic in topics:
            self._wake(topic)

    @contextlib.contextmanager
    def waiting(self, topic: str) -> Iterator[asyncio.Event]:
        """An event that is set when the topic is told; clear it before looking, then wait."""
        event = asyncio.Event()
        self._waiting.setdefault(topic, set()).add(event)
        try:
            yield event
        finally:
            events = self._waiting[topic]
            events.discard(event)
            if not events:
                del self._waiting[topic]

    async def run(self) -> None:
        """Tell and hear the other processes, reconnecting for ever. Ends by cancellation.

        Over a pooler that lends its connections nobody can be heard: then this process wakes its own alone.
        """
        options = self._options.direct
        pause = _RECONNECT_SECONDS
        if options is None:
            await asyncio.Event().wait()
            return
        while True:
            try:
                async with self._connected(options) as connection:
                    pause = _RECONNECT_SECONDS
                    self.on_connected()
                    # What was told while nobody listened may have been missed.
                    self._wake(EVERYBODY)
                    await self._exchange(connection)
            except Exception as error:  # noqa: BLE001 - whatever a connection dies of, the next one is opened
                log.warning("wake-ups interrupted", extra={"error": type(error).__name__})
            self._heard_at = self._answers_until = None
            self._kept_back = True
            await asyncio.sleep(pause)
            pause = min(pause * 2, _RECONNECT_SECONDS_MAX)

    @contextlib.asynccontextmanager
    async def _connected(self, options: DatabaseOptions) -> "AsyncGenerator[Connection[Record]]":
        connection = await asyncpg.connect(
            options.url,
            timeout=options.connect_seconds,
            command_timeout=options.command_seconds_max,
            # It writes nothing that could be lost, and need not wait for the disk.
            server_settings=session_settings(options, application_name="sinksweep wake")
            | {"synchronous_commit": "off"},
        )
        try:
            await connection.add_listener(CHANNEL, self._hear)
            yield connection
        finally:
            connection.terminate()

    async def _exchange(self, connection: "Connection[Record]") -> None:
        began = time.monotonic()
        self._answers_until = began + _ANSWER_SECONDS
        self._make_up()
        while True:
            for payload in self._payloads():
                await self._say(connection, payload)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ECHO_SECONDS):
                    await self._something.wait()
            if time.monotonic() - (self._heard_at or began) > 3 * _ECHO_SECONDS:
                message = "the listening connection is silent"
                raise TimeoutError(message)
            # Others who tell within this moment share one notification.
            await asyncio.sleep(_GATHER_SECONDS)

    async def _say(self, connection: "Connection[Record]", payload: str) -> None:
        """Tell the others; the server tells its time with the answer."""
        before = time.time()  # noqa: TID251 - this clock is what is measured
        (row,) = await SQL["notify"].rows(connection, channel=CHANNEL, payload=payload)
        after = time.time()  # noqa: TID251 - this clock is what is measured
        self.clock_ahead_seconds = (before + after) / 2 - row["seconds"]

    def _payloads(self) -> list[str]:
        topics = sorted(self._untold)
        self._untold.clear()
        self._something.clear()
        payload = json.dumps([self._me, *topics])
        if len(payload.encode()) > _PAYLOAD_BYTES_MAX:
            payload = json.dumps([self._me, EVERYBODY])
        # With no topics it is the echo that proves the connection.
        return [payload]

    def _hear(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        try:
            sender, *topics = json.loads(str(payload))
        except (ValueError, TypeError):
            return
        if sender == self._me:
            self._heard_at = time.monotonic()
            return
        self._know(sender)
        self.on_heard()
        for topic in topics:
            self._wake(str(topic))

    def _know(self, sender: str) -> None:
        """Another is there. One that is new has not heard of this one, nor of what was told since it listens."""
        now = time.monotonic()
        if self._others.get(sender, now) <= now:
            self._make_up()
            self._others = {name: until for name, until in self._others.items() if until > now}
            self._something.set()
        self._others[sender] = now + 3 * _ECHO_SECONDS

    def _make_up(self) -> None:
        """Wake everybody elsewhere, once, where something was kept back from them."""
        if self._kept_back:
            self._kept_back = False
            self._untold.add(EVERYBODY)

    def _wake(self, topic: str) -> None:
        topics = list(self._waiting) if topic == EVERYBODY else (topic, ANYTHING)
        for one in topics:
            for event in self._waiting.get(one, ()):
                event.set()
