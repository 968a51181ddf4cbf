"""Which of several addresses is connected to, and that nothing is left of the others."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient
from app.wire.dialing import dial
from app.wire.exchange import Answered, NotSent
from app.wire.resolution import Address, Refused, VettedResolver
from tests.wire.loops import Run
from tests.wire.names import Names
from tests.wire.servers import LOOPBACK, OK, answering, listening, post


def _open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


@contextmanager
def hanging(port: int) -> Iterator[None]:
    """A listener on 127.0.0.2 whose queue is full: whoever connects hears nothing."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.2", port))
        listener.listen(0)
        for _ in range(4):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.2", port))
        yield


def test_an_address_that_hangs_does_not_hold_up_the_next_one(run: Run) -> None:
    async def main() -> None:
        names = Names(["127.0.0.2", "127.0.0.2", "127.0.0.3"])
        async with (
            listening(answering(OK), host="127.0.0.3", tls=None) as server,
            GuardedClient(LOOPBACK, resolver=names) as client,
        ):
            with hanging(server.port):
                before = _open_files()
                loop = asyncio.get_running_loop()
                begun = loop.time()
                exchange = await post(client, server.port, host="crm.example", timeout_seconds=10)
                assert isinstance(exchange, Answered)
                assert 0.4 < loop.time() - begun < 3
                # Both ends of the one connection: those that lost are closed.
                await asyncio.sleep(0.02)
                assert _open_files() == before + 2

    run(main())


def test_who_gives_up_while_connecting_leaves_no_socket(run: Run) -> None:
    async def main() -> None:
        names = Names(["127.0.0.2", "127.0.0.2"])
        with socket.socket() as free:
            free.bind(("127.0.0.2", 0))
            port = free.getsockname()[1]
        with hanging(port):
            async with GuardedClient(LOOPBACK, resolver=names) as client:
                before = _open_files()
                exchange = await post(client, port, host="crm.example", timeout_seconds=0.4)
                assert exchange == NotSent("timeout_before_send")
                await asyncio.sleep(0.02)
                assert _open_files() == before

    run(main())


def test_all_addresses_that_refuse_are_one_refusal(run: Run) -> None:
    async def main() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.2", 0))
            port = free.getsockname()[1]
        names = Names(["127.0.0.2", "127.0.0.3"])
        async with GuardedClient(LOOPBACK, resolver=names) as client:
            exchange = await post(client, port, host="crm.example")
        assert exchange == NotSent("connection_refused")

    run(main())


class Unvetted(VettedResolver):
    """One that forgets to judge."""

    async def resolve(self, host: str, port: int) -> list[Address]:
        return [*await self._resolver(host, port=port)]


def test_each_address_is_judged_again_for_its_socket(run: Run) -> None:
    async def main() -> None:
        names = Names(["127.0.0.1"])
        async with listening(answering(OK), host="127.0.0.1", tls=None) as server:
            with pytest.raises(Refused, match="address_denied"):
                await dial("x", server.port, resolver=Unvetted(names, policy=AddressPolicy()))
            (await dial("x", server.port, resolver=Unvetted(names, policy=LOOPBACK))).close()
            await asyncio.sleep(0.02)
            assert server.connections == 1

    run(main())
