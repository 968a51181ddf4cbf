"""Connections that carry one exchange after another, and are used again only while nothing came over them that was not
asked for.
"""

import asyncio
import select
import ssl
from typing import Final, cast

from app.wire.answer import AnswerReader
from app.wire.deadlines import Deadlines
from app.wire.exchange import Cut, Exchange, NotSent

# Many servers close an idle connection after five seconds. One that is closed under a request
# leaves its outcome unknown, so idle connections are given up well before that.
IDLE_SECONDS_MAX: Final = 3.0
# What a server may say before it was asked, until it is.
_EARLY_BYTES_MAX: Final = 65_536
# A body up to this size goes in one piece with its header block.
_PIECE_BYTES_MAX: Final = 65_536


class Connection(asyncio.Protocol):
    """One connection: nothing is written to it before its first `exchange`. `deadlines` end it in time."""

    def __init__(self, deadlines: Deadlines) -> None:
        self.idle_since = 0.0
        self._deadlines = deadlines
        self._answer = AnswerReader()
        self._ended: asyncio.Future[str] | None = None
        self._early: bytearray | None = bytearray()
        self._is_over = False
        self._poll: select.poll | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = self._beneath = cast("asyncio.Transport", transport)

    async def secure(self, tls: ssl.SSLContext, *, host: str) -> None:
        """Go on with TLS, before the first exchange. Raises what the handshake raises."""
        if self._early or self._is_over:
            # What came before the TLS that it should be within was put there by somebody between.
            raise ConnectionAbortedError
        loop = asyncio.get_running_loop()
        secured = await loop.start_tls(self._beneath, self, tls, server_hostname=host)
        if secured is None:
            raise ConnectionAbortedError
        self._transport = secured

    async def exchange(
        self, head: bytes, body: bytes, *, deadline: float, answer_bytes_max: int
    ) -> Exchange:
        """Send one request and say what came of it, by `deadline` of the loop's clock at the latest.

        On a connection that is over nothing is written, and what it said before answers nothing.
        """
        if self._is_over:
            return NotSent("connection_cut_before_send")
        ended = self._ended = asyncio.get_running_loop().create_future()
        self._answer.begin(excerpt_bytes_max=answer_bytes_max)
        self._deadlines.add(self, deadline)
        try:
            self._write(head, body)
            early, self._early = self._early, None
            if early:
                # What came since the connection was made, before anything was asked.
                self.data_received(bytes(early))
            reason = await ended
        except BaseException:
            self.abort()
            raise
        finally:
            self._deadlines.remove(self)
            self._ended = None
        return self._answer.answered() or Cut(reason)

    def expire(self) -> None:
        """The time of the exchange is over."""
        self._end("timeout")

    @property
    def can_go_on(self) -> bool:
        """Whether the last exchange has left nothing behind in either direction."""
        is_clean = self._answer.can_go_on and not self._is_over
        # With TLS a transport does not count what the one beneath it has yet to send.
        return (
            is_clean
            and not self._transport.get_write_buffer_size()
            and (self._transport is self._beneath or not self._beneath.get_write_buffer_size())
        )

    def is_fit(self, now: float) -> bool:
        """Whether an idle connection may be used again: recently used, and as it was left.

        The loop may not yet have noticed that the other side wrote or closed; the socket knows.
        """
        is_old = now - self.idle_since > IDLE_SECONDS_MAX
        if is_old or self._is_over or self._transport.is_closing():
            return False
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not self._poll.poll(0)

    def abort(self) -> None:
        """Close it at once: what was not yet sent is lost, and nobody is waited for."""
        self._is_over = True
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """A part of the answer, or something that nobody asked for."""
        if self._ended is not None and not self._ended.done():
            if self._answer.feed(data):
                self._end("malformed_answer")
        elif self._early is not None and len(self._early) + len(data) <= _EARLY_BYTES_MAX:
            self._early += data
        else:
            self.abort()

    def eof_received(self) -> None:
        """The other side has said everything; the transport closes by itself."""
        self._is_over = True
        self._answer.feed_eof()
        self._end("connection_cut")

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, whether or not somebody waits for an answer."""
        del exc
        self._is_over = True
        self._end("connection_cut")

    def _write(self, head: bytes, body: bytes) -> None:
        if len(body) <= _PIECE_BYTES_MAX:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    def _end(self, reason: str) -> None:
        """The exchange is over; `reason` is why, should there be no answer."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(reason)
