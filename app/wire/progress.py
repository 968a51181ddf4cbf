"""How far one request came: what is known of it at whatever moment it ends, and a stable word for why."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace

import aiohttp

from app.wire.exchange import Answered, Cut, Exchange, NotSent
from app.wire.resolution import Refused


@dataclass(slots=True)
class Progress:
    """How far one request came, to be read after it was cut off at any point."""

    written: bool = False
    status: int | None = None
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    excerpt: bytearray = field(default_factory=bytearray)
    complete: bool = False

    def ended(self, reason: str) -> Exchange:
        """What is known, now that nothing more will happen; `reason` is why it ended early, if it
        did.
        """
        if self.status is not None:
            return Answered(self.status, self.headers, bytes(self.excerpt), self.complete)
        return Cut(reason) if self.written else NotSent(reason)

    async def read(self, answer: aiohttp.ClientResponse, *, answer_bytes_max: int) -> None:
        """Take in an answer as it comes, up to so many bytes of its body."""
        self.headers = {name.lower(): tuple(answer.headers.getall(name)) for name in answer.headers}
        self.status = answer.status
        while len(self.excerpt) <= answer_bytes_max:
            piece = await answer.content.read(answer_bytes_max + 1 - len(self.excerpt))
            if not piece:
                self.complete = True
                return
            self.excerpt += piece
        del self.excerpt[answer_bytes_max:]


def watch_connections() -> aiohttp.TraceConfig:
    """Nothing is waited for between having a connection and writing to it, so having one counts as
    having written.
    """

    async def mark(
        _session: aiohttp.ClientSession, context: SimpleNamespace, _params: object
    ) -> None:
        context.trace_request_ctx.written = True

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(mark)
    trace.on_connection_reuseconn.append(mark)
    return trace


def reason_of(error: Exception, *, written: bool) -> str:
    """A stable word for what went wrong. Errors carry hosts and URLs, so none of their text is
    passed on.
    """
    if written:
        return (
            "malformed_answer"
            if isinstance(error, aiohttp.ClientResponseError)
            else "connection_cut"
        )
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return "tls_failed"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    match cause:
        case Refused():
            return cause.reason
        case ConnectionRefusedError():
            return "connection_refused"
        case _:
            return "connection_failed"
