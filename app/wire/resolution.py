"""From a host name to addresses that may be connected to, or to a stated refusal: never to anything
in between.
"""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Protocol

from aiohttp.abc import AbstractResolver, ResolveResult

from app.wire.addresses import AddressPolicy

RESOLUTION_SECONDS_MAX = 5.0
RESOLUTION_THREADS_MAX = 8
ADDRESSES_TRIED_MAX = 4

Address = IPv4Address | IPv6Address


class Refused(OSError):
    """No connection may or can be made; `reason` is a stable word."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Resolver(Protocol):
    """Turns a host into addresses; raises `OSError` when it cannot."""

    async def __call__(self, host: str, *, port: int) -> Sequence[Address]:
        """All addresses of `host`, in the order in which they should be tried."""
        ...


class SystemResolver:
    """The operating system's resolver, on threads of its own so that a slow name server starves
    nobody else.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLUTION_THREADS_MAX, thread_name_prefix="resolve")

    async def __call__(self, host: str, *, port: int) -> Sequence[Address]:
        """All addresses of `host`; raises `OSError`."""
        found = await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        return [ip_address(str(sockaddr[0]).partition("%")[0]) for *_, sockaddr in found]

    def close(self) -> None:
        """Take no more names. A look-up that the system still works on is left to end by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class VettedResolver(AbstractResolver):
    """Gives a connection only addresses that the policy permits, and nothing at all when one of
    them is not.
    """

    def __init__(self, resolver: Resolver, *, policy: AddressPolicy) -> None:
        self._resolver = resolver
        self._policy = policy

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - both are wanted
    ) -> list[ResolveResult]:
        """The vetted addresses of `host`; raises `Refused`."""
        try:
            async with asyncio.timeout(RESOLUTION_SECONDS_MAX):
                addresses = await self._resolver(host, port=port)
        except (OSError, ValueError):
            raise Refused("dns_failed") from None
        if not addresses:
            raise Refused("dns_failed")
        # One private address among public ones is how a name is steered inside, so none of them is
        # used.
        if not all(self._policy.permits(address) for address in addresses):
            raise Refused("address_denied")
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,  # noqa: PLR2004
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses[:ADDRESSES_TRIED_MAX]
        ]

    async def close(self) -> None:
        """Nothing to release: the resolver inside belongs to the client."""
