"""The guarded client: one request, sent at most once, within one deadline, only to vetted
addresses.

Addresses are judged after each resolution and again for each socket. Nothing is followed, decoded,
repeated or taken from the environment, and connections are never shared between groups.
"""

import asyncio
import io
import ssl
from collections.abc import Mapping
from typing import Literal, Self

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from app.wire.addresses import AddressPolicy
from app.wire.connections import GuardedConnector
from app.wire.exchange import Exchange
from app.wire.headers import check_framing
from app.wire.progress import Progress, reason_of, watch_connections
from app.wire.reach import Streams, connect, reach, upgrade
from app.wire.resolution import Refused, Resolver, SystemResolver, VettedResolver
from app.wire.target import Target

Method = Literal["GET", "POST", "PUT"]

ANSWER_LINE_BYTES_MAX = 8190
ANSWER_HEADERS_MAX = 128
_FINAL_STATUS_MIN = 200
_READ_BYTES = 65536
# A body up to this size goes at once.
_PIECE_BYTES_MAX = 65536
# An attempt has one deadline over all its parts; the library's own, one a part, would only blur it.
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)


class GuardedClient:
    """The HTTP client of the whole service. An asynchronous context manager, to be entered once."""

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        resolver: Resolver | None = None,
        connections_max: int = 100,
        user_agent: str = "Sinksweep",
        extra_roots: str | None = None,
    ) -> None:
        """`connections_max` is for each connection group; `extra_roots` is PEM text trusted beside
        the system's.
        """
        self._policy = policy
        self._threads = SystemResolver()
        self._resolver = VettedResolver(resolver or self._threads, policy=policy)
        self._connections_max = connections_max
        self._headers = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": user_agent}
        self._tls = ssl.create_default_context()
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        if extra_roots is not None:
            self._tls.load_verify_locations(cadata=extra_roots)
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        self._open = False

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._open = False
        while self._sessions:
            _, session = self._sessions.popitem()
            await session.close()
        self._threads.close()

    async def post(
        self,
        target: Target,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout_seconds: float,
        answer_bytes_max: int,
        connection_group: str,
    ) -> Exchange:
        """Send a POST, as `request` does."""
        return await self.request(
            "POST",
            target,
            headers=headers,
            body=body,
            timeout_seconds=timeout_seconds,
            answer_bytes_max=answer_bytes_max,
            connection_group=connection_group,
        )

    async def request(
        self,
        method: Method,
        target: Target,
        *,
        headers: Mapping[str, str],
        timeout_seconds: float,
        answer_bytes_max: int,
        connection_group: str,
        body: bytes | None = None,
    ) -> Exchange:
        """Send one request, once, and say what is known of it when it ended, `timeout_seconds` from
        now at the latest.

        Whatever goes wrong on the way is part of the answer; only a header that must not be sent
        raises, as `InvalidHeader`, before anything happens. `connection_group` is the name of the
        destination.
        """
        check_framing(headers)
        progress = Progress()
        if not self._open:
            return progress.ended("client_closed")
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._exchange(
                    self._session(connection_group),
                    method,
                    target,
                    headers=headers,
                    body=body,
                    answer_bytes_max=answer_bytes_max,
                    progress=progress,
                )
        except TimeoutError:
            return progress.ended("timeout" if progress.written else "timeout_before_send")
        except (aiohttp.ClientError, OSError, RuntimeError, ValueError) as error:
            return progress.ended(reason_of(error, written=progress.written))
        return progress.ended("malformed_answer")

    async def reach(self, target: Target, *, timeout_seconds: float) -> str | None:
        """Open a connection and close it: None where somebody listens, or a stable word for what
        went wrong. Nothing is sent.
        """
        if not self._open:
            return "client_closed"
        return await reach(
            target, resolver=self._resolver, tls=self._tls, timeout_seconds=timeout_seconds
        )

    async def connect(self, host: str, port: int) -> Streams:
        """Open a connection to a vetted address of `host`; raises `Refused`. Whoever asks closes it."""
        if not self._open:
            raise Refused("client_closed")
        return await connect(host, port, resolver=self._resolver)

    async def upgrade(self, writer: asyncio.StreamWriter, *, host: str) -> None:
        """Go on with TLS under the client's rules; raises `Refused`."""
        await upgrade(writer, host=host, tls=self._tls)

    async def _exchange(
        self,
        session: aiohttp.ClientSession,
        method: Method,
        target: Target,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        answer_bytes_max: int,
        progress: Progress,
    ) -> None:
        outgoing = CIMultiDict(self._headers)
        outgoing.update(headers)
        answer = await session.request(
            method,
            _url(target),
            headers=outgoing,
            skip_auto_headers=("Content-Type",),
            # The library warns of bytes beyond a megabyte; a stream of the same is read in pieces.
            data=body if body is None or len(body) <= _PIECE_BYTES_MAX else io.BytesIO(body),
            allow_redirects=False,
            trace_request_ctx=progress,
        )
        try:
            if answer.status >= _FINAL_STATUS_MIN:
                await progress.read(answer, answer_bytes_max=answer_bytes_max)
        finally:
            # Leaving the answer's own context would first wait for the rest of the request to be
            # taken.
            answer.release()

    def _session(self, connection_group: str) -> aiohttp.ClientSession:
        session = self._sessions.get(connection_group)
        if session is None:
            connector = GuardedConnector(
                self._policy,
                resolver=self._resolver,
                tls=self._tls,
                connections_max=self._connections_max,
            )
            session = self._sessions[connection_group] = aiohttp.ClientSession(
                connector=connector,
                timeout=_NO_TIMEOUT,
                trust_env=False,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                raise_for_status=False,
                read_bufsize=_READ_BYTES,
                max_line_size=ANSWER_LINE_BYTES_MAX,
                max_field_size=ANSWER_LINE_BYTES_MAX,
                max_headers=ANSWER_HEADERS_MAX,
                trace_configs=[watch_connections()],
            )
            # What may be repeated is for whoever asked to repeat, also where the method would allow it.
            session._retry_connection = False  # noqa: SLF001
        return session


def _url(target: Target) -> URL:
    path, mark, query = target.path_and_query.partition("?")
    return URL.build(
        scheme=target.scheme,
        host=f"[{target.host}]" if ":" in target.host else target.host,
        port=target.port,
        path=path,
        query_string=query if mark else "",
        encoded=True,
    )
