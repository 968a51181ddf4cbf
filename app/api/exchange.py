"""One request and its answer, as the server sees them: whether the client is there, what it has sent, and one way to
write a whole answer at once.
"""

from typing import TYPE_CHECKING, Any, Final

from starlette.requests import HTTPConnection
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    RequestResponseCycle,
)

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

# In the scope of a request.
EXCHANGE: Final = "exchange"
_CLOSE: Final = b"connection: close\r\n"


class Exchange(RequestResponseCycle):
    """A request and its answer. In memory its body is only what has come and was not read yet."""

    @property
    def gone(self) -> bool:
        """Whether the client has left, as far as this system has heard."""
        return self.disconnected

    @property
    def flows(self) -> bool:
        """Whether everything that was written is on its way."""
        return not self.flow.write_paused and not self.transport.get_write_buffer_size()

    def whole_body(self, bytes_max: int) -> bytes | None:
        """Take the body where all of it is here, and no longer than that; else nothing is taken."""
        if self.more_body or self.disconnected or len(self.body) > bytes_max:
            return None
        body, self.body = bytes(self.body), bytearray()
        # As when it is read piece by piece: from now on there is nothing to be told but that the client has left.
        self.message_event.clear()
        self.flow.resume_reading()
        return body

    def can_answer(self, response: Response) -> bool:
        """Whether an answer can be written at once: nothing waits before it, and it says how long it is."""
        return self.flow.write_paused is False and any(
            name == b"content-length" for name, _ in response.raw_headers
        )

    def answer(self, response: Response, surrounding: bytes) -> None:
        """Write a whole answer, with header lines that surround every one of its kind."""
        if self.disconnected:
            return
        parts = [STATUS_LINE[response.status_code], surrounding]
        for name, value in response.raw_headers:
            if HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
                raise RuntimeError("a header that is none")
            if name == b"connection" and b"close" in value.lower():
                self.keep_alive = False
            else:
                parts += (name, b": ", value, b"\r\n")
        if not self.keep_alive:
            parts.append(_CLOSE)
        parts += (b"\r\n", bytes(response.body))
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        self.transport.write(b"".join(parts))
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    async def run_asgi(self, app: "ASGI3Application") -> None:
        """Have it answered."""
        scope: Any = self.scope
        scope[EXCHANGE] = self
        try:
            await super().run_asgi(app)
        finally:
            # Nothing is left that only the collector of cycles could take away.
            del scope[EXCHANGE]


def exchange_of(request: HTTPConnection[Any]) -> Exchange:
    """The exchange that a request is a part of."""
    exchange: Exchange = request.scope[EXCHANGE]
    return exchange
