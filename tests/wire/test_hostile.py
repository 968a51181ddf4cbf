"""Servers that cut, flood, answer out of turn and hang, on both event loops that the service may run on."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from app.wire.client import GuardedClient
from app.wire.connections import Connection
from app.wire.exchange import Answered, Cut, Exchange, NotSent
from tests.wire.names import Names
from tests.wire.servers import LOOPBACK, OK, Behaviour, Server, Talk, answering, listening, post

Run = Callable[[Coroutine[Any, Any, None]], None]
Ask = Callable[..., Coroutine[Any, Any, Exchange]]
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\nok"


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner.run


def against(
    run: Run,
    behave: Behaviour,
    told: Callable[[Server, Ask], Coroutine[Any, Any, None]],
    **options: Any,
) -> None:
    """Run `told(server, ask)` with a server and a client of its own."""

    async def main() -> None:
        async with (
            listening(behave, host="127.0.0.1", tls=None) as server,
            GuardedClient(LOOPBACK, **options) as client,
        ):

            async def ask(**changes: Any) -> Exchange:
                return await post(client, server.port, **changes)

            await told(server, ask)

    run(main())


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with a reset, whatever was written."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def after_request(act: Callable[[asyncio.StreamWriter], Coroutine[Any, Any, None]]) -> Behaviour:
    def behave(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await server.read(reader)
                await act(writer)

        return talk

    return behave


@pytest.mark.parametrize("answer", [OK, CHUNKED])
def test_an_answer_in_single_bytes_is_that_answer(run: Run, answer: bytes) -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        for at in range(len(answer)):
            writer.write(answer[at : at + 1])
            await writer.drain()
            await asyncio.sleep(0)

    async def told(server: Server, ask: Ask) -> None:
        for _ in range(3):
            exchange = await ask()
            assert isinstance(exchange, Answered)
            assert (exchange.status, exchange.excerpt, exchange.complete) == (200, b"ok", True)
        assert server.connections == 1

    against(run, after_request(drip), told)


@pytest.mark.parametrize("answer", [OK, CHUNKED, ENDLESS])
def test_a_reset_at_any_byte_leaves_what_was_known_then(run: Run, answer: bytes) -> None:
    length = 0

    async def part(writer: asyncio.StreamWriter) -> None:
        writer.write(answer[:length])
        await writer.drain()
        # The other side takes in what came before the reset, which would throw it away.
        await asyncio.sleep(0.005)
        reset(writer)

    async def told(_server: Server, ask: Ask) -> None:
        nonlocal length
        head = answer.index(b"\r\n\r\n") + 4
        for length in range(len(answer) + 1):
            exchange = await ask()
            if length < head:
                assert exchange == Cut("connection_cut"), length
            else:
                assert isinstance(exchange, Answered), length
                is_whole = answer is not ENDLESS and length == len(answer)
                assert exchange.complete == is_whole, length

    against(run, after_request(part), told)


@pytest.mark.parametrize("body", [b"{}", b"x" * 10_000_000])
def test_an_answer_before_the_request_was_taken_counts_and_its_connection_is_not_used_again(
    run: Run, body: bytes
) -> None:
    def behave(_server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(1)
            writer.write(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            await writer.drain()
            await asyncio.sleep(0.01)
            reset(writer)

        return talk

    async def told(server: Server, ask: Ask) -> None:
        for count in (1, 2, 3):
            exchange = await ask(body=body)
            assert isinstance(exchange, Answered)
            assert exchange.status == 200
            assert server.connections == count

    against(run, behave, told)


def test_who_speaks_first_is_still_sent_the_request(run: Run) -> None:
    def behave(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(OK)
            await server.read(reader)

        return talk

    async def told(server: Server, ask: Ask) -> None:
        assert isinstance(await ask(), Answered)
        async with asyncio.timeout(5):
            while not server.requests:
                await asyncio.sleep(0.005)

    against(run, behave, told)


@pytest.mark.parametrize("more", [b"x", b"\r\n", OK])
def test_what_comes_after_an_answer_ends_its_connection(run: Run, more: bytes) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.write(more)

    async def told(server: Server, ask: Ask) -> None:
        for count in (1, 2, 3):
            exchange = await ask()
            assert isinstance(exchange, Answered)
            assert (exchange.excerpt, server.connections) == (b"ok", count)
            await asyncio.sleep(0.05)

    against(run, after_request(answer), told)


def test_a_flood_of_what_is_no_answer_is_cut_off_long_before_the_deadline(run: Run) -> None:
    async def flood(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
            await writer.drain()

    async def told(server: Server, ask: Ask) -> None:
        async with asyncio.timeout(10):
            assert await ask(timeout_seconds=60) == Cut("malformed_answer")
        assert server.connections == 1

    against(run, after_request(flood), told)


def test_idle_connections_are_closed_in_time_and_never_used_after_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.wire.pool.IDLE_SECONDS_MAX", 0.2)
    monkeypatch.setattr("app.wire.pool._SWEEP_SECONDS", 0.0)
    gone = asyncio.Event()

    def behave(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    await server.read(reader)
                    writer.write(OK)
            finally:
                gone.set()

        return talk

    async def told(server: Server, ask: Ask) -> None:
        assert isinstance(await ask(), Answered)
        assert isinstance(await ask(), Answered)
        assert server.connections == 1
        async with asyncio.timeout(5):
            await gone.wait()
        assert isinstance(await ask(), Answered)
        assert server.connections == 2

    against(run, behave, told)


def test_a_connection_that_was_idle_for_too_long_is_not_fit(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No sweep comes before it, as when the loop was held up.
    monkeypatch.setattr("app.wire.pool.IDLE_SECONDS_MAX", 60.0)
    monkeypatch.setattr("app.wire.connections.IDLE_SECONDS_MAX", 0.05)

    async def told(server: Server, ask: Ask) -> None:
        for count in (1, 2):
            assert isinstance(await ask(), Answered)
            assert server.connections == count
            await asyncio.sleep(0.1)

    against(run, answering(OK), told)


def test_who_waits_for_a_connection_gets_the_next_one_and_who_gives_up_takes_none(run: Run) -> None:
    go = asyncio.Event()

    def behave(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await server.read(reader)
                await go.wait()
                writer.write(OK)

        return talk

    async def told(server: Server, ask: Ask) -> None:
        async with asyncio.TaskGroup() as tasks:
            first = [tasks.create_task(ask()) for _ in range(2)]
            while len(server.requests) < 2:
                await asyncio.sleep(0.005)
            late = [tasks.create_task(ask()) for _ in range(6)]
            await asyncio.sleep(0.01)
            for task in late[::2]:
                task.cancel()
            assert await ask(timeout_seconds=0.05) == NotSent("timeout_before_send")
            go.set()
        answered = [task for task in (*first, *late) if not task.cancelled()]
        assert len(answered) == 5
        assert all(isinstance(task.result(), Answered) for task in answered)
        assert (server.connections, len(server.requests)) == (2, 5)

    against(run, behave, told, connections_max=2)


def test_closing_the_client_cuts_what_is_under_way_and_sends_nothing_that_waits(run: Run) -> None:
    async def main() -> None:
        async with listening(after_request(_forever), host="127.0.0.1", tls=None) as server:
            async with (
                asyncio.TaskGroup() as tasks,
                GuardedClient(LOOPBACK, connections_max=1) as client,
            ):
                first = tasks.create_task(post(client, server.port))
                while not server.requests:
                    await asyncio.sleep(0.005)
                second = tasks.create_task(post(client, server.port))
                await asyncio.sleep(0.01)
            assert first.result() == Cut("connection_cut")
            assert second.result() == NotSent("client_closed")
            assert len(server.requests) == 1

    run(main())


async def _forever(_writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


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


def test_small_packets_are_not_held_back(run: Run) -> None:
    seen: list[int] = []
    made = Connection.connection_made

    class Watched(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made(self, transport)
            connection = transport.get_extra_info("socket")
            seen.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    async def told(_server: Server, ask: Ask) -> None:
        assert isinstance(await ask(), Answered)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.wire.pool.Connection", Watched)
        against(run, answering(OK), told)
    assert seen == [1]


def test_an_answer_over_tls_may_end_with_the_connection(
    run: Run, certificate: tuple[Path, Path]
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)

    def behave(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.read(reader)
            writer.write(ENDLESS)
            await writer.drain()

        return talk

    async def main() -> None:
        roots = certificate[0].read_text()
        async with (
            listening(behave, host="127.0.0.1", tls=tls) as server,
            GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"]), extra_roots=roots) as client,
        ):
            for count in (1, 2):
                exchange = await post(client, server.port, host="crm.example", scheme="https")
                assert exchange == Answered(200, {}, b"ok", complete=True)
                assert server.connections == count

    run(main())


def test_a_connection_over_tls_is_used_again(run: Run, certificate: tuple[Path, Path]) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)

    async def main() -> None:
        roots = certificate[0].read_text()
        async with (
            listening(answering(OK), host="127.0.0.1", tls=tls) as server,
            GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"]), extra_roots=roots) as client,
        ):
            for body in (b"{}", b"x" * 3_000_000, b"{}"):
                exchange = await post(
                    client, server.port, host="crm.example", scheme="https", body=body
                )
                assert isinstance(exchange, Answered)
                assert server.requests[-1].endswith(body)
            assert server.connections == 1

    run(main())
