"""The server's side of one connection: requests whose headers are too long or too slow are refused before they are one,
and whoever does not read his answers is left.

What is refused here is answered with the same documents as everything else, and its connection ends. Answers on their
way to earlier requests of the connection are never spoiled by it.
"""

import asyncio
from typing import Any, ClassVar, Final

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from app.api.connection import Connection
from app.api.problems import problem
from app.api.shortcuts import Shortcuts
from app.api.writing import TimedTransport

HEADER_BYTES_MAX: Final = 64 << 10
HEADERS_MAX: Final = 100
# Requests that came before the answers to earlier ones of their connection.
PIPELINED_MAX: Final = 16
_FRAMING: Final = (b"content-length", b"transfer-encoding")
# After a refusal a client that still sends is listened to for a moment, so that closing does not destroy the answer.
DISCARD_BYTES_MAX: Final = 64 << 10
DISCARD_SECONDS_MAX: Final = 1.0


class _TooLong(Exception):
    """The headers are over a limit; it travels through the parser."""


class _TooMany(Exception):
    """More requests at once than a connection may have; it travels through the parser."""


class BoundedProtocol(Connection):
    """HTTP/1.1 with a bound on the bytes, the number and the time of the headers of a request.

    An offer to upgrade is ignored, and its body is read as what it is: never as a request of its own.
    """

    header_seconds_max: ClassVar[float]
    answer_seconds_max: ClassVar[float]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._clock: asyncio.TimerHandle | None = None
        # Whether the headers of a request are read and its body is not.
        self._in_body = False
        # Whether a part of a request is here that has no headers yet.
        self._begun = False
        # What the parser was given since it last handed on something that is bounded elsewhere.
        self._kept_bytes = 0
        self._header_bytes = 0
        self._header_count = 0
        self._refused = False
        # Whether a second parser is told what the first one has read.
        self._retelling = False
        # What still came after a refusal was written; None before that.
        self._discarded_bytes: int | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """From now on the first request has its time."""
        self._timed = TimedTransport(transport, loop=self.loop, seconds_max=self.answer_seconds_max)
        super().connection_made(self._timed)
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._stop_clock()
        self._timed.stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, as long as what the parser keeps is bounded."""
        if self._refused:
            self._discard(len(data))
        else:
            self._kept_bytes += len(data)
            self._feed(data)
            if self._begun or self._answering:
                # A new request, and not the rest of one that is answered already.
                self._unset_keepalive_if_required()
            self._bound()

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._read_on(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("")

    def _read_on(self, rest: bytes) -> None:
        """Have a new parser read the body that the old one left to another protocol, after the same framing."""
        framing = [b"%b: %b\r\n" % header for header in self.headers if header[0] in _FRAMING]
        self.parser = httptools.HttpRequestParser(self)
        self._retelling = True
        # Not under its own method: that of a tunnel is an offer by itself.
        self._feed(b"".join([b"POST / HTTP/1.1\r\n", *framing, b"\r\n"]))
        if rest and not self._refused:
            self._feed(rest)

    def _bound(self) -> None:
        if self._refused:
            return
        if self._kept_bytes > HEADER_BYTES_MAX:
            self._refuse("headers_too_large")
        elif self._begun or (self._kept_bytes and not self._in_body):
            self._start_clock()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        if self._retelling:
            return
        super().on_message_begin()
        self._begun = True
        self._header_bytes = self._header_count = 0

    def on_url(self, url: bytes) -> None:
        """Some of the target."""
        if self._retelling:
            return
        self._header_bytes += len(url)
        if self._header_bytes > HEADER_BYTES_MAX:
            raise _TooLong
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header. What comes behind a body is none, whatever it says."""
        if self._retelling:
            return
        self._header_count += 1
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > HEADER_BYTES_MAX or self._header_count > HEADERS_MAX:
            raise _TooLong
        if self._in_body:
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """A request: it is answered, or told that there are too many."""
        if self._retelling:
            self._retelling = False
            return
        if len(self.pipeline) >= PIPELINED_MAX:
            raise _TooMany
        self._stop_clock()
        self._begun, self._in_body, self._kept_bytes = False, True, 0
        super().on_headers_complete()
        if self.pipeline:
            # Who does not read does not hear that the client has left. What may come meanwhile is bounded.
            self.flow.resume_reading()

    def on_body(self, body: bytes) -> None:
        """Some of the body: who reads it bounds it."""
        self._kept_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The end of a request; another one may follow."""
        if self.parser.should_upgrade():
            # Its body comes yet, to another parser.
            return
        self._in_body, self._kept_bytes = False, 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the words are in the document
        """Refuse what the parser did not take."""
        too_long = self._header_count > HEADERS_MAX or self._header_bytes > HEADER_BYTES_MAX
        self._refuse("headers_too_large" if too_long else "bad_request")

    def _start_clock(self) -> None:
        if self._clock is None:
            self._clock = self.loop.call_later(self.header_seconds_max, self._late)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _late(self) -> None:
        self._clock = None
        if self._answering:
            # It is not waited for while an earlier request has the connection.
            self._start_clock()
        elif self._begun:
            self._refuse("request_timeout")
        else:
            self.transport.close()

    @property
    def _answering(self) -> bool:
        # There is no cycle before the first request.
        return not getattr(self.cycle, "response_complete", True)

    def _refuse(self, code: str) -> None:
        """Answer, and end the connection; nothing more of it is read."""
        self._refused = True
        self._stop_clock()
        if self.transport.is_closing():
            return
        if self._answering and (
            self.pipeline or self.cycle.response_started or not self.cycle.more_body
        ):
            # An earlier request is being answered: the connection ends with that.
            self.cycle.keep_alive = False
            return
        answer = problem(code, headers={"Connection": "close"})
        headers = [*self.server_state.default_headers, *answer.raw_headers]
        lines = [b"%b: %b\r\n" % header for header in headers]
        self.transport.write(
            b"".join([STATUS_LINE[answer.status_code], *lines, b"\r\n", answer.body])
        )
        if self._answering:
            # Whoever reads the body sees that there will be no more of it.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._discarded_bytes = 0
        self.flow.resume_reading()
        self.transport.write_eof()
        self._clock = self.loop.call_later(DISCARD_SECONDS_MAX, self.transport.close)

    def _discard(self, count: int) -> None:
        if self._discarded_bytes is None:
            return
        self._discarded_bytes += count
        if self._discarded_bytes > DISCARD_BYTES_MAX:
            self.transport.close()


def protocol_with(
    *,
    shortcuts: Shortcuts,
    header_seconds_max: float,
    answer_seconds_max: float,
    connections_max: int,
) -> type[BoundedProtocol]:
    """The protocol under these limits, for the server to make one for each connection."""
    known = {
        "shortcuts": shortcuts,
        "header_seconds_max": header_seconds_max,
        "answer_seconds_max": answer_seconds_max,
        "connections_max": connections_max,
    }
    return type("Protocol", (BoundedProtocol,), known)
