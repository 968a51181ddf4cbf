"""Connections that lead only to vetted addresses, and are reused only while nothing unasked for
came over them.
"""

import asyncio
import select
import socket
import ssl
import time
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler

from app.wire.addresses import AddressPolicy
from app.wire.resolution import Refused

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

# Many servers close an idle connection after five seconds. One that is closed under a request
# leaves its outcome unknown, so idle connections are given up well before that.
IDLE_SECONDS_MAX = 3.0
# So much before the library would pass over one, and take the next unseen.
_SPARE_SECONDS = 0.1


_HEADERS_END = b"\r\n\r\n"


class _AnswerProtocol(ResponseHandler):
    """The library throws away a complete header block when a broken body comes in the same piece.

    So header blocks are handed on by themselves: what they say is known, whatever follows.
    """

    _edge = b""

    def data_received(self, data: bytes) -> None:
        """Hand on `data`, cut behind each end of a header block, also one that began earlier."""
        known = self._edge + data
        begin, end = len(self._edge), 0
        self._edge = known[1 - len(_HEADERS_END) :]
        while (found := known.find(_HEADERS_END, end)) != -1:
            end = found + len(_HEADERS_END)
            self._hand_on(known[begin:end])
            begin = end
        if begin < len(known):
            self._hand_on(known[begin:])

    def _hand_on(self, piece: bytes) -> None:
        body = self._payload
        super().data_received(piece)
        if self.exception() is not None and body is not None and not body.is_eof():
            # Otherwise whoever reads the broken body would wait for the rest of it.
            body.set_exception(aiohttp.ClientPayloadError())


class GuardedConnector(aiohttp.TCPConnector):
    """The pool of one connection group."""

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        resolver: AbstractResolver,
        tls: ssl.SSLContext,
        connections_max: int,
    ) -> None:
        self._policy = policy
        super().__init__(
            resolver=resolver,
            use_dns_cache=False,
            ssl=tls,
            limit=connections_max,
            keepalive_timeout=IDLE_SECONDS_MAX,
            socket_factory=self._open_socket,
        )
        self._factory = partial(_answer_protocol, loop=self._loop)

    def _open_socket(self, addr_info: "AddrInfoType") -> socket.socket:
        """The last gate, which address literals cannot walk around: they are never resolved."""
        family, kind, protocol, _, address = addr_info
        if not self._policy.permits(ip_address(address[0])):
            raise Refused("address_denied")
        return socket.socket(family, kind, protocol)

    async def _get(self, key: "ConnectionKey", traces: list["Trace"]) -> "Connection | None":
        """Give up idle connections that the other side wrote on or closed.

        The library would take an answer that nobody asked for as the answer to the next request,
        and would send a request into a connection whose end it has not yet noticed.
        """
        idle = self._conns.get(key)
        since = time.monotonic() - IDLE_SECONDS_MAX + _SPARE_SECONDS
        while idle:
            # The first is the one that is given out, unless it is given up: only that one is looked at.
            protocol, released_at = idle[0]
            if released_at > since and _is_fit(protocol):
                break
            idle.popleft()
            protocol.close()
        return await super()._get(key, traces)


def _answer_protocol(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return _AnswerProtocol(loop)


def _is_fit(protocol: ResponseHandler) -> bool:
    usable = protocol.is_connected() and not protocol.should_close
    return usable and not _is_readable(protocol.transport)


def _is_readable(transport: asyncio.Transport | None) -> bool:
    connection = None if transport is None else transport.get_extra_info("socket")
    if connection is None or connection.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
