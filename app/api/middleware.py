"""Around every request: counted by its route, refused before any work where there are too many, and kept out of caches
and out of the guesses of browsers.
"""

import time
from collections.abc import Sequence
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.bodies import EarlyAnswer
from app.api.exchange import Exchange
from app.api.problems import Refusal
from app.core import Draining
from app.telemetry.counting import Counter, Histogram
from app.telemetry.metrics import Metrics

# In the state of a request's scope, where there are more connections or requests than there should be.
OVERLOADED: Final = "overloaded"

_Headers = Sequence[tuple[bytes, bytes]]

_NOSNIFF: Final = (b"x-content-type-options", b"nosniff")
_CLOSE: Final = (b"connection", b"close")
_NO_STORE: Final = (b"cache-control", b"no-store")
_PRIVATE_PATHS: Final = "/v1/"
_UNKNOWN: Final = "unknown"
_LATER: Final = {"Retry-After": "1"}


class Surroundings:
    """Counts and times requests; answers HEAD as GET, whose body the server leaves out.

    While the service drains, an answer is the last of its connection: whoever keeps connections comes back by another
    one, and finds a process that stays.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, draining: Draining) -> None:
        self._app = app
        self._metrics = metrics
        self._draining = draining
        # For each route and status, of which there are so many and no more.
        self._children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        # What the server adds to each answer, which is another list each second, and the lines that are made of it.
        self._of: _Headers = ()
        self._lines = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        status = 0
        private = scope["path"].startswith(_PRIVATE_PATHS)
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(self.added(message, private=private))

        app = self._app
        if private and scope.get("state", {}).get(OVERLOADED):
            # Whoever asks how this process is doing is answered all the same.
            app = EarlyAnswer(Refusal("overloaded", headers=_LATER))
        try:
            await app(scope, receive, sending)
        finally:
            route = getattr(scope.get("route"), "path", _UNKNOWN)
            self.count(route, status, time.monotonic() - started)

    def added(self, message: Message, *, private: bool) -> Message:
        """A message of an answer, with the headers of all."""
        if message["type"] != "http.response.start":
            return message
        headers = [*message.get("headers", ()), _NOSNIFF]
        if private:
            headers.append(_NO_STORE)
        if self._draining.started and _CLOSE[0] not in dict(headers):
            headers.append(_CLOSE)
        return {**message, "headers": headers}

    def lines(self, exchange: Exchange) -> bytes:
        """The same for a private answer that is written at once, with what the server adds to each."""
        if self._draining.started:
            exchange.keep_alive = False
        if exchange.default_headers is not self._of:
            self._of = exchange.default_headers
            self._lines = b"".join(b"%b: %b\r\n" % one for one in (*self._of, _NOSNIFF, _NO_STORE))
        return self._lines

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        known = self._children.get((route, status))
        if known is None:
            # Looking a label up costs as much as everything else here.
            known = (
                self._metrics.requests.labels(route, str(status)),
                self._metrics.request_seconds.labels(route),
            )
            self._children[route, status] = known
        known[0].inc()
        known[1].observe(seconds)
