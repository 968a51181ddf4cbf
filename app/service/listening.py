"""Where a process is reached: a port that is taken before anything else is opened, and the server behind it."""

import asyncio
import contextlib
import resource
import socket
from collections.abc import Iterator

import uvicorn

from app.api.application import build_application
from app.api.protocol import protocol_with
from app.console import PAGES
from app.core import Core
from app.domain.errors import SinksweepError

BACKLOG = 2048


class PortTaken(SinksweepError):
    """The address cannot be listened on."""


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process has its own, for all its roles."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, so that the port is known, and taken, before anything else is opened.

    Raises `PortTaken`.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, so that the event loop knows what it is and sends small answers at once.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        message = (
            f"port: {host}:{port} cannot be listened on ({error.strerror}); "
            "choose another with SINKSWEEP_PORT or --port, 0 for any that is free"
        )
        raise PortTaken(message) from error
    listener.setblocking(False)  # noqa: FBT003 - its only form
    return listener


def url_of(listener: socket.socket) -> str:
    """Where the listener is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def build_server(core: Core, *, api: bool, running: asyncio.TaskGroup) -> uvicorn.Server:
    """The server of a process: with the API, or with health and metrics alone."""
    application = build_application(core, tasks=running, api=api, pages=PAGES)
    configuration = uvicorn.Config(
        application,
        http=protocol_with(
            shortcuts=application.shortcuts,
            header_seconds_max=core.settings.limits.header_seconds_max,
            answer_seconds_max=core.settings.limits.answer_seconds_max,
            connections_max=core.settings.server.connections_max,
        ),
        loop="none",
        lifespan="off",
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=core.settings.server.keep_alive_seconds,
        timeout_graceful_shutdown=max(1, int(core.settings.server.drain_seconds)),
    )
    return _Server(configuration)


def allow_files(count: int) -> None:
    """As many connections as configured need as many open files; the usual allowance is for a thousand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # A system may allow less than it says.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
