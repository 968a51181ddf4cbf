"""What a connection makes of its requests: an exchange each, one after the other, and an end when nothing comes.

A frequent call is sent straight to its endpoint, everything else to the application.
"""

import asyncio
import urllib.parse
from typing import TYPE_CHECKING, Any, ClassVar

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from app.api.exchange import Exchange
from app.api.middleware import OVERLOADED
from app.api.shortcuts import Shortcuts

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application


class Connection(HttpToolsProtocol):
    """HTTP/1.1, read by its parser. Answers keep the order of their requests."""

    shortcuts: ClassVar[Shortcuts]
    connections_max: ClassVar[int]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        # The request that is being answered: an earlier one than `cycle`, where others came behind it.
        self._running: RequestResponseCycle | None = None
        # Since when nothing is asked; None while something is.
        self._idle_since: float | None = None
        self._idle_clock: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more, and every request of the connection hears of it."""
        if self._idle_clock is not None:
            self._idle_clock.cancel()
        for cycle in (self._running, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        """A request: it is answered, once those before it are."""
        scope: Any = self.scope
        busy = max(len(self.connections), len(self.tasks)) > self.connections_max
        method, version = self.parser.get_method(), self.parser.get_http_version()
        app: Any = self.app
        # Who is refused before any work, or keeps to an older version, has the time for the long way.
        short = method == b"POST" and version == "1.1" and not busy
        shortcut = self.shortcuts.find(self.url) if short else None
        if shortcut is not None:
            # Nothing in it is encoded, and there is no query.
            app, path, query = shortcut, self.url, b""
        else:
            target = httptools.parse_url(self.url)
            path, query = target.path, target.query or b""
            scope["state"][OVERLOADED] = busy
        spelled = path.decode("ascii")
        scope["method"], scope["http_version"] = method.decode("ascii"), version
        scope["path"] = urllib.parse.unquote(spelled) if "%" in spelled else spelled
        scope["raw_path"], scope["query_string"] = path, query
        before = self.cycle
        self.cycle = Exchange(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        # There is none before the first request.
        if getattr(before, "response_complete", True):
            self._start_asgi_task(self.cycle, app)
        else:
            self.pipeline.appendleft((self.cycle, app))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: "ASGI3Application") -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """An answer is written: the next request is answered, or nothing is asked any more."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_since = self.loop.time()
        # One clock for as many answers as there are in its time: making one for each costs as much as parsing.
        if self._idle_clock is None:
            self._idle_clock = self.loop.call_later(
                self.timeout_keep_alive, self._look_for_idleness
            )

    def _unset_keepalive_if_required(self) -> None:
        """Something is asked again."""
        self._idle_since = None

    def _look_for_idleness(self) -> None:
        self._idle_clock = None
        if self._idle_since is None:
            return
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._idle_clock = self.loop.call_later(left, self._look_for_idleness)
        else:
            self.timeout_keep_alive_handler()
