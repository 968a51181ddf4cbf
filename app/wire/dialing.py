"""Sockets that lead only to vetted addresses: each address is judged once more before it is connected to, and no name
is resolved again on the way.
"""

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

from app.wire.resolution import Address, Refused, VettedResolver

# When the next address is tried beside one that has not answered yet, after RFC 8305.
STAGGER_SECONDS: Final = 0.25


async def dial(host: str, port: int, *, resolver: VettedResolver) -> socket.socket:
    """A connection to the first of a host's vetted addresses that takes one; raises `Refused`. Whoever asks closes it.

    An address that fails gives way to the next at once; one that does not answer goes on beside it.
    """
    opened: list[socket.socket] = []
    refusals: list[str] = []

    async def attempt(address: Address) -> None:
        try:
            opened.append(await _connected(address, port, resolver=resolver))
        except Refused as refused:
            refusals.append(refused.reason)

    try:
        left = deque(_by_turns(await resolver.resolve(host, port)))
        running: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as attempts:
            while not opened and (left or running):
                if left:
                    running.add(attempts.create_task(attempt(left.popleft())))
                seconds = STAGGER_SECONDS if left else None
                _, running = await asyncio.wait(
                    running, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
                )
            for task in running:
                task.cancel()
    except BaseException:
        _close(opened)
        raise
    if not opened:
        raise Refused(refusals[0] if len(set(refusals)) == 1 else "connection_failed")
    first, *others = opened
    _close(others)
    return first


async def _connected(address: Address, port: int, *, resolver: VettedResolver) -> socket.socket:
    resolver.judge(address)
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004
    try:
        connection = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError:
        raise Refused("connection_failed") from None
    try:
        connection.setblocking(False)  # noqa: FBT003 - the name of the system
        await asyncio.get_running_loop().sock_connect(connection, (str(address), port))
    except BaseException as error:
        connection.close()
        if isinstance(error, ConnectionRefusedError):
            raise Refused("connection_refused") from None
        if isinstance(error, OSError | RuntimeError | ValueError):
            raise Refused("connection_failed") from None
        raise
    return connection


def _by_turns(addresses: Sequence[Address]) -> list[Address]:
    """First one of each version, then a second of each: a network that lacks one version costs one wait."""
    seen: Counter[int] = Counter()
    places: list[tuple[int, Address]] = []
    for address in addresses:
        places.append((seen[address.version], address))
        seen[address.version] += 1
    return [address for _, address in sorted(places, key=lambda one: one[0])]


def _close(connections: Sequence[socket.socket]) -> None:
    for one in connections:
        one.close()
