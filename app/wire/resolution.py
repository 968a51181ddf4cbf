"""From a host name to addresses that may be connected to, or to a stated refusal: never to anything
in between.
"""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Protocol

from app.wire.addresses import AddressPolicy
from app.wire.exchange import RESOLVER_BUSY

RESOLUTION_SECONDS_MAX = 5.0
# A part of the former, so that a name still has time to be looked up.
QUEUE_SECONDS_MAX = 2.0
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


@dataclass(frozen=True, slots=True, eq=False)
class _LookUp:
    """One name on its way: `begun` is set when a thread has taken it, or nobody ever will."""

    begun: asyncio.Event
    answer: asyncio.Future[list[Address]]


class SystemResolver:
    """The operating system's resolver, on threads of its own so that a slow name server starves
    nobody else.

    A name holds one thread at most: whoever asks for it meanwhile waits for the same answer, which
    nobody gets later.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLUTION_THREADS_MAX, thread_name_prefix="resolve")
        self._look_ups: dict[str, _LookUp] = {}

    async def __call__(self, host: str, *, port: int) -> Sequence[Address]:
        """All addresses of `host`; raises `OSError`, and `Refused` when no thread took it in time."""
        look_up = self._look_ups.get(host) or self._begin(host, port=port)
        try:
            async with asyncio.timeout(QUEUE_SECONDS_MAX):
                await look_up.begun.wait()
        except TimeoutError:
            raise Refused(RESOLVER_BUSY) from None
        # Who gives up here cancels only the wait, and not the answer that others wait for.
        await asyncio.wait((look_up.answer,))
        if look_up.answer.cancelled():
            raise Refused("client_closed")
        return look_up.answer.result()

    def _begin(self, host: str, *, port: int) -> _LookUp:
        """Queue a look-up, which ends by itself. Addresses do not depend on the port."""
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def find() -> list[Address]:
            loop.call_soon_threadsafe(begun.set)
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return [ip_address(str(sockaddr[0]).partition("%")[0]) for *_, sockaddr in found]

        def ended(answer: asyncio.Future[list[Address]]) -> None:
            del self._look_ups[host]
            begun.set()
            if not answer.cancelled():
                # Read here, or a failure that nobody waits for any more is reported as forgotten.
                answer.exception()

        look_up = _LookUp(begun, loop.run_in_executor(self._threads, find))
        self._look_ups[host] = look_up
        look_up.answer.add_done_callback(ended)
        return look_up

    def close(self) -> None:
        """Take no more names. A look-up that the system still works on is left to end by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class VettedResolver:
    """Gives a connection only addresses that the policy permits, and nothing at all when one of
    them is not.
    """

    def __init__(self, resolver: Resolver, *, policy: AddressPolicy) -> None:
        self._resolver = resolver
        self._policy = policy

    async def resolve(self, host: str, port: int) -> list[Address]:
        """The vetted addresses of `host`, which may be one itself; raises `Refused`."""
        addresses = await self._addresses(host, port)
        if not addresses:
            raise Refused("dns_failed")
        # One private address among public ones is how a name is steered inside, so none of them is
        # used.
        for address in addresses:
            self.judge(address)
        return list(addresses[:ADDRESSES_TRIED_MAX])

    def judge(self, address: Address) -> None:
        """Refuse an address that the policy does not permit; raises `Refused`."""
        if not self._policy.permits(address):
            raise Refused("address_denied")

    async def _addresses(self, host: str, port: int) -> Sequence[Address]:
        try:
            return [ip_address(host)]
        except ValueError:
            pass
        try:
            async with asyncio.timeout(RESOLUTION_SECONDS_MAX):
                return await self._resolver(host, port=port)
        except Refused:
            raise
        except (OSError, ValueError):
            raise Refused("dns_failed") from None
