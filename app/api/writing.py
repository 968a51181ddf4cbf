"""A deadline on writing: who does not read what was asked for is left, and what was written for him is thrown away."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final

_AT_ONCE: Final = struct.pack("ii", 1, 0)


class TimedTransport(asyncio.Transport):
    """A transport whose bytes leave within `seconds_max` of the first that had to wait, or its connection is cut.

    Nothing else ends a connection whose other side neither reads nor leaves: closing it waits for what is unsent.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        *,
        loop: asyncio.AbstractEventLoop,
        seconds_max: float,
    ) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._seconds_max = seconds_max
        # When everything before was on its way, and something came again.
        self._since = 0.0
        self._clock: asyncio.TimerHandle | None = None
        # Asked for with each answer.
        self._unsent: Callable[[], int] = transport.get_write_buffer_size

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write, within the time."""
        if not self._unsent():
            self._since = self._loop.time()
        self._transport.write(data)
        # One clock for as many answers as there are in its time: most are gone when it is looked at.
        if self._clock is None:
            self._clock = self._loop.call_later(self._seconds_max, self._look)

    def _look(self) -> None:
        self._clock = None
        if not self._unsent():
            return
        left = self._since + self._seconds_max - self._loop.time()
        if left > 0:
            self._clock = self._loop.call_later(left, self._look)
        else:
            self._throw_away()
            self._transport.abort()

    def _throw_away(self) -> None:
        """Have the system forget what it has taken as well: it would go on offering it."""
        known = self._transport.get_extra_info("socket")
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(known.fileno())) as same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)

    def stop_clock(self) -> None:
        """The connection is lost: there is nothing more to wait for."""
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Write all of it."""
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        """Write no more."""
        self._transport.write_eof()

    def can_write_eof(self) -> bool:
        """Whether the other side can be told that there is no more."""
        return self._transport.can_write_eof()

    def get_write_buffer_size(self) -> int:
        """How much is unsent, in bytes."""
        return self._unsent()

    def abort(self) -> None:
        """Cut the connection."""
        self._transport.abort()

    def close(self) -> None:
        """End the connection once everything is sent."""
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether it ends."""
        return self._transport.is_closing()

    def is_reading(self) -> bool:
        """Whether what comes is read."""
        return self._transport.is_reading()

    def pause_reading(self) -> None:
        """Read nothing for now."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What is known of the connection."""
        return self._transport.get_extra_info(name, default)
