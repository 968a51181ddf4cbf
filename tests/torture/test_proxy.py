"""What the proxy's faults do to a real client of a real Postgres: each must do what its name says."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from tests.torture.harm import UNREACHABLE
from tests.torture.proxy import At, Proxy, Snag, Streams, Way, open_proxy

if TYPE_CHECKING:
    from tests.database import Admin

BEFORE, BETWEEN, AFTER = At.BEFORE_COMMIT, At.BEFORE_ANSWER_OF_COMMIT, At.AFTER_ANSWER_OF_COMMIT


@pytest.fixture
async def proxy(database_url: str, admin: "Admin") -> AsyncIterator[Proxy]:
    await admin.execute("create table kept (n int)")
    (sockets,) = parse_qs(urlsplit(database_url).query)["host"]

    async def connect() -> Streams:
        return await asyncio.open_unix_connection(f"{sockets}/.s.PGSQL.5432")

    async with open_proxy("postgres", connect, speaks_postgres=True) as opened:
        yield opened


@pytest.fixture
async def client(proxy: Proxy, database_url: str) -> "AsyncIterator[Admin]":
    database = urlsplit(database_url).path
    url = f"postgresql://postgres@127.0.0.1:{proxy.port}{database}?sslmode=disable"
    connection = await asyncpg.connect(url, timeout=5, command_timeout=5)
    try:
        yield connection
    finally:
        connection.terminate()


async def kept(admin: "Admin") -> list[int]:
    return [row["n"] for row in await admin.fetch("select n from kept order by n")]


async def insert(client: "Admin", n: int, *, explicit: bool) -> None:
    """In a transaction of its own, or as a statement that is one."""
    if explicit:
        async with client.transaction():
            await client.execute("insert into kept values ($1)", n)
    else:
        await client.execute("insert into kept values ($1)", n)


async def test_without_a_fault_it_changes_nothing(client: "Admin", admin: "Admin") -> None:
    async with client.transaction():
        await client.execute("insert into kept values ($1)", 1)
    await client.execute("insert into kept values ($1)", 2)
    assert await client.fetchval("select repeat('x', 1000000)") == "x" * 1_000_000
    assert await kept(admin) == [1, 2]


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize(("at", "expected"), [(BEFORE, []), (BETWEEN, [1])])
async def test_a_cut_at_a_commit_is_not_told_and_done_if_and_only_if_it_was_sent(
    proxy: Proxy, client: "Admin", admin: "Admin", at: At, expected: list[int], explicit: bool
) -> None:
    await client.fetch("select n from kept where n = $1", 0)
    proxy.arm(Snag(at))
    with pytest.raises(UNREACHABLE):
        await insert(client, 1, explicit=explicit)
    assert proxy.snagged == {at: 1}
    assert await kept(admin) == expected


async def test_a_cut_after_the_answer_of_a_commit_is_met_by_the_next_statement(
    proxy: Proxy, client: "Admin", admin: "Admin"
) -> None:
    proxy.arm(Snag(AFTER))
    async with client.transaction():
        await client.execute("insert into kept values (1)")
    with pytest.raises(UNREACHABLE):
        # Where the end of the connection has not been seen yet, it is met in the middle of the statement.
        await client.execute("insert into kept values (2)")
    assert await kept(admin) == [1]


@pytest.mark.parametrize("way", list(Way))
async def test_a_cut_at_a_byte_breaks_off_in_the_middle(
    proxy: Proxy, client: "Admin", way: Way
) -> None:
    proxy.arm(Snag(At.BYTE, way, 3))
    with pytest.raises(UNREACHABLE):
        await client.fetchval("select 1")
    assert proxy.snagged == {At.BYTE: 1}


async def test_a_black_hole_holds_back_and_delivers_late(
    proxy: Proxy, client: "Admin", admin: "Admin"
) -> None:
    proxy.swallow(Way.OUT)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        # Not given up: a client that does cancels what it asked, and a late delivery meets that.
        asked = group.create_task(client.execute("insert into kept values (1)"))
        await asyncio.wait([asked], timeout=0.2)
        assert not asked.done()
        assert await kept(admin) == []
        proxy.heal()
    assert await kept(admin) == [1]


async def test_a_reset_ends_every_connection_and_new_ones_are_let_through(
    proxy: Proxy, client: "Admin", database_url: str
) -> None:
    proxy.reset()
    with pytest.raises(UNREACHABLE):
        await client.fetchval("select 1")
    database = urlsplit(database_url).path
    again = await asyncpg.connect(
        f"postgresql://postgres@127.0.0.1:{proxy.port}{database}?sslmode=disable"
    )
    assert await again.fetchval("select 1") == 1
    again.terminate()
