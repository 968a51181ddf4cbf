"""Which connections are used again, how many there are, and what becomes of them at the end."""

import asyncio
import socket

import pytest

from app.wire.client import GuardedClient
from app.wire.connections import Connection
from app.wire.deadlines import Deadlines
from app.wire.exchange import Answered, Cut, NotSent
from tests.wire.loops import Ask, Run, after_request, against
from tests.wire.servers import LOOPBACK, OK, Server, Talk, answering, listening, post


@pytest.mark.parametrize("more", [OK.replace(b"200", b"299"), b""])
def test_what_the_loop_has_not_yet_noticed_spoils_a_connection_too(run: Run, more: bytes) -> None:
    sent = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await asyncio.sleep(0.02)
        if more:
            writer.write(more)
        else:
            writer.write_eof()
        # Whoever waits for this runs before the loop looks at what has come.
        sent.set()

    async def told(server: Server, ask: Ask) -> None:
        for count in (1, 2, 3):
            exchange = await ask()
            assert isinstance(exchange, Answered)
            assert (exchange.status, server.connections) == (200, count)
            await sent.wait()
            sent.clear()

    against(run, after_request(answer), told)


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


@pytest.mark.parametrize("said", [b"", OK])
def test_on_a_connection_that_is_over_before_its_request_nothing_is_sent(
    run: Run, said: bytes
) -> None:
    """What it said before it went away answers nothing."""

    async def main() -> None:
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(Deadlines()), sock=ours)
        with theirs:
            theirs.settimeout(5)
            theirs.sendall(said)
            theirs.shutdown(socket.SHUT_WR)
            # The loop hears of it before anything is asked.
            await asyncio.sleep(0.05)
            exchange = await connection.exchange(
                b"POST / HTTP/1.1\r\n\r\n", b"", deadline=loop.time() + 5, answer_bytes_max=10
            )
            assert exchange == NotSent("connection_cut_before_send")
            assert not connection.can_go_on
            connection.abort()
            assert theirs.recv(1) == b""

    run(main())
