"""The guarded client: one request, sent at most once, within one deadline, only to vetted
addresses.

Addresses are judged after each resolution and again for each socket. Nothing is followed, decoded,
repeated or taken from the environment, and connections are never shared between groups.
"""

import asyncio
import ssl
from collections.abc import Coroutine, Mapping
from typing import Literal, Self

from app.wire.addresses import AddressPolicy
from app.wire.exchange import Exchange, NotSent
from app.wire.headers import header_lines
from app.wire.pool import ConnectionPool
from app.wire.reach import Streams, connect, reach, upgrade
from app.wire.resolution import Refused, Resolver, SystemResolver, VettedResolver
from app.wire.target import Target, authority

Method = Literal["GET", "POST", "PUT"]


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
        self._defaults = {"accept": "*/*", "user-agent": user_agent}
        self._tls = ssl.create_default_context()
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        if extra_roots is not None:
            self._tls.load_verify_locations(cadata=extra_roots)
        self._pools: dict[str, ConnectionPool] = {}
        self._open = False

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._open = False
        while self._pools:
            _, pool = self._pools.popitem()
            pool.close()
        self._threads.close()

    def post(
        self,
        target: Target,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout_seconds: float,
        answer_bytes_max: int,
        connection_group: str,
    ) -> Coroutine[object, object, Exchange]:
        """Send a POST, as `request` does."""
        return self.request(
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
        content = b"" if body is None else body
        # A GET has no body, and says so by saying nothing.
        length = None if body is None and method == "GET" else len(content)
        lines = header_lines(headers, defaults=self._defaults)
        if not self._open:
            return NotSent("client_closed")
        if timeout_seconds <= 0:
            return NotSent("timeout_before_send")
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        pool = self._pool(connection_group)
        try:
            head = _head(method, target, lines, length=length)
            connection = await pool.take(target, deadline=deadline)
        except Refused as refused:
            return NotSent(refused.reason)
        except TimeoutError:
            return NotSent("timeout_before_send")
        except ValueError:
            return NotSent("connection_failed")
        try:
            return await connection.exchange(
                head, content, deadline=deadline, answer_bytes_max=answer_bytes_max
            )
        finally:
            pool.give_back(connection, target)

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

    def _pool(self, connection_group: str) -> ConnectionPool:
        pool = self._pools.get(connection_group)
        if pool is None:
            pool = self._pools[connection_group] = ConnectionPool(
                resolver=self._resolver, tls=self._tls, connections_max=self._connections_max
            )
        return pool


def _head(method: Method, target: Target, lines: str, *, length: int | None) -> bytes:
    """The header block of a request; raises `ValueError` for a target that is not plain ASCII."""
    counted = "" if length is None else f"Content-Length: {length}\r\n"
    host = authority(target)
    return (
        f"{method} {target.path_and_query} HTTP/1.1\r\nHost: {host}\r\n"
        f"Accept-Encoding: identity\r\n{lines}{counted}\r\n"
    ).encode("ascii")
