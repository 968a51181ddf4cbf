"""The connections of one group: never more than so many in use, none shared with another group, none kept for long."""

import asyncio
import ssl
from collections import deque
from typing import Final

from app.wire.connections import IDLE_SECONDS_MAX, Connection
from app.wire.deadlines import Deadlines
from app.wire.dialing import dial
from app.wire.resolution import Refused, VettedResolver
from app.wire.target import Target

# Where a connection leads: scheme, host, port.
_Place = tuple[str, str, int]

# So much later than the first of them is due, so that those that are due about then go with it.
_SWEEP_SECONDS: Final = 0.5


class _Slots:
    """So many at once. Who waits is let in before who comes, in the order in which they came."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take one, where one is free: nobody waits then."""
        if not self._free:
            return False
        self._free -= 1
        return True

    async def wait(self) -> None:
        """Take the next one that nobody else waits for."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # It was given to who no longer wants it.
                self.give_back()
            raise

    def give_back(self) -> None:
        """To who has waited longest, if anybody still does."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class ConnectionPool:
    """Hands connections out, and takes each back with `give_back`."""

    def __init__(
        self, *, resolver: VettedResolver, tls: ssl.SSLContext, connections_max: int
    ) -> None:
        self._resolver = resolver
        self._tls = tls
        self._connections_max = connections_max
        self._slots = _Slots(connections_max)
        self._deadlines = Deadlines()
        self._used: set[Connection] = set()
        # The one that was used last is at the right end of its deque.
        self._idle: dict[_Place, deque[Connection]] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = asyncio.Event()

    async def take(self, target: Target, *, deadline: float) -> Connection:
        """A connection that leads to a target, for `give_back`.

        Raises `Refused`, and `TimeoutError` where there is none by `deadline` of the loop's clock.
        """
        if not self._slots.take():
            async with asyncio.timeout_at(deadline):
                await self._slots.wait()
        try:
            connection = self._idle_one((target.scheme, target.host, target.port))
            if connection is None:
                async with asyncio.timeout_at(deadline):
                    connection = await self._open(target)
        except BaseException:
            self._slots.give_back()
            raise
        self._used.add(connection)
        return connection

    def give_back(self, connection: Connection, target: Target) -> None:
        """Keep it for the next one, where it can go on."""
        self._used.discard(connection)
        self._slots.give_back()
        if self._closed.is_set() or not connection.can_go_on:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        place = (target.scheme, target.host, target.port)
        idle = self._idle.get(place)
        if idle is None:
            idle = self._idle[place] = deque()
        idle.append(connection)
        if len(idle) > self._connections_max:
            idle.popleft().abort()
        if self._sweep is None:
            self._sweep = loop.call_later(IDLE_SECONDS_MAX, self._close_old)

    def close(self) -> None:
        """Close everything, also what is in use."""
        self._closed.set()
        if self._sweep is not None:
            self._sweep.cancel()
        self._deadlines.clear()
        for connection in (*self._used, *(one for idle in self._idle.values() for one in idle)):
            connection.abort()
        self._idle.clear()

    def _idle_one(self, place: _Place) -> Connection | None:
        idle = self._idle.get(place)
        if idle is None:
            return None
        now = asyncio.get_running_loop().time()
        while idle:
            connection = idle.pop()
            if connection.is_fit(now):
                return connection
            connection.abort()
        return None

    async def _open(self, target: Target) -> Connection:
        if self._closed.is_set():
            raise Refused("client_closed")
        socket = await dial(target.host, target.port, resolver=self._resolver)
        connection: Connection | None = None
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(self._deadlines), sock=socket
            )
            if target.scheme == "https":
                await connection.secure(self._tls, host=target.host)
        except BaseException as error:
            if connection is None:
                socket.close()
            else:
                connection.abort()
            if isinstance(error, ssl.SSLError):
                raise Refused("tls_failed") from None
            if isinstance(error, OSError | RuntimeError | ValueError):
                raise Refused("connection_failed") from None
            raise
        if self._closed.is_set():
            connection.abort()
            raise Refused("client_closed")
        return connection

    def _close_old(self) -> None:
        """Close what was idle for too long, and come again for the rest."""
        now = asyncio.get_running_loop().time()
        oldest: float | None = None
        for place, idle in list(self._idle.items()):
            while idle and now - idle[0].idle_since >= IDLE_SECONDS_MAX - _SWEEP_SECONDS:
                idle.popleft().abort()
            if not idle:
                del self._idle[place]
            else:
                oldest = min(oldest or now, idle[0].idle_since)
        self._sweep = None
        if oldest is not None:
            seconds = oldest + IDLE_SECONDS_MAX - now
            self._sweep = asyncio.get_running_loop().call_later(seconds, self._close_old)
