"""A transaction is whole: retried as a whole where Postgres allows it, a bounded number of times, or reported lost."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import asyncpg
import pytest

from app.engine import transaction
from app.engine.database import open_pool
from app.engine.transaction import TRIES_MAX, Busy, DatabaseUnavailable, transact
from tests.database import Server, options_for

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link
    from tests.database import Admin

LEAVE_A_TRACE = (
    "insert into sink.lane (queue, conversation, tail) values ('trace', gen_random_uuid(), 0)"
)
TRACES = "select count(*) from sink.lane where queue = 'trace'"
ROW = "insert into sink.lane (queue, conversation, tail) values ('q', $1, 0)"
TOUCH = "update sink.lane set tail = tail + 1 where queue = 'q' and conversation = $1"


@dataclass(slots=True)
class Tries:
    """Work that leaves a trace, and counts how often it is begun."""

    then: "Callable[[Link, int], Awaitable[object]]"
    begun: list[int] = field(default_factory=list)

    async def __call__(self, connection: "Link") -> object:
        self.begun.append(len(self.begun) + 1)
        await connection.execute(LEAVE_A_TRACE)
        return await self.then(connection, self.begun[-1])


async def test_a_lock_that_is_let_go_in_time_costs_a_retry_of_the_whole(
    database_url: str, admin: "Admin"
) -> None:
    await admin.execute(ROW, "a")
    blocker = await asyncpg.connect(database_url)
    held = blocker.transaction()
    await held.start()
    await blocker.execute(TOUCH, "a")

    async def touch(connection: "Link", tried: int) -> str:
        if tried == 3:
            await held.commit()
        return await connection.execute(TOUCH, "a")

    tries = Tries(touch)
    options = options_for(database_url, lock_timeout_ms=20)
    async with open_pool(options, application_name="test") as pool:
        assert await transact(pool, tries) == "UPDATE 1"
    assert tries.begun == [1, 2, 3]
    assert await admin.fetchval(TRACES) == 1
    await blocker.close()


async def test_a_lock_that_is_never_let_go_ends_the_call_after_a_bounded_number_of_tries(
    database_url: str, admin: "Admin"
) -> None:
    await admin.execute(ROW, "a")
    options = options_for(database_url, lock_timeout_ms=20)
    async with open_pool(options, application_name="test") as pool, admin.transaction():
        await admin.execute(TOUCH, "a")
        tries = Tries(lambda connection, _tried: connection.execute(TOUCH, "a"))
        with pytest.raises(DatabaseUnavailable) as raised:
            await transact(pool, tries)
        assert isinstance(raised.value.__cause__, asyncpg.LockNotAvailableError)
    assert len(tries.begun) == TRIES_MAX
    assert await admin.fetchval(TRACES) == 0


async def test_work_that_can_be_done_in_parts_waits_for_a_lock_only_once_and_not_for_long(
    pool: "Pool", admin: "Admin"
) -> None:
    await admin.execute(ROW, "a")
    tries = Tries(lambda connection, _tried: connection.execute(TOUCH, "a"))
    async with admin.transaction():
        await admin.execute(TOUCH, "a")
        with pytest.raises(Busy):
            await transact(pool, tries, lock_wait_ms=10)
    assert tries.begun == [1]
    assert await admin.fetchval(TRACES) == 0
    # Whoever has the connection next waits as long as ever.
    async with pool.acquire() as connection:
        assert await connection.fetchval("show lock_timeout") == "5s"


async def test_a_deadlock_ends_one_of_the_two_who_then_tries_again(
    pool: "Pool", admin: "Admin"
) -> None:
    for name in ("a", "b"):
        await admin.execute(ROW, name)
    both_hold = asyncio.Barrier(2)

    def crossing(first: str, second: str) -> Tries:
        async def touch(connection: "Link", tried: int) -> None:
            await connection.execute(TOUCH, first)
            if tried == 1:
                await both_hold.wait()
            await connection.execute(TOUCH, second)

        return Tries(touch)

    one, other = crossing("a", "b"), crossing("b", "a")
    async with asyncio.TaskGroup() as group:
        group.create_task(transact(pool, one))
        group.create_task(transact(pool, other))
    assert sorted([len(one.begun), len(other.begun)]) == [1, 2]
    assert await admin.fetchval("select min(tail) from sink.lane where queue = 'q'") == 2
    assert await admin.fetchval(TRACES) == 2


async def test_a_serialization_failure_is_retried(pool: "Pool", admin: "Admin") -> None:
    await admin.execute("""
        create sequence sink.luck;
        grant usage on sequence sink.luck to sinksweep_app;
        create function sink.unlucky_twice() returns bigint language plpgsql as $$
        declare n bigint := nextval('sink.luck');
        begin
            if n <= 2 then
                raise exception 'try again' using errcode = 'serialization_failure';
            end if;
            return n;
        end $$
    """)
    tries = Tries(lambda connection, _tried: connection.fetchval("select sink.unlucky_twice()"))
    assert await transact(pool, tries) == 3
    assert await admin.fetchval(TRACES) == 1


@pytest.mark.parametrize(
    ("statement", "raised"),
    [
        ("select 1 / 0", asyncpg.DivisionByZeroError),
        ("insert into sink.lane values ('q', null, 0)", asyncpg.NotNullViolationError),
    ],
)
async def test_any_other_error_is_the_callers_and_undoes_the_whole(
    pool: "Pool", admin: "Admin", statement: str, raised: type[Exception]
) -> None:
    tries = Tries(lambda connection, _tried: connection.execute(statement))
    with pytest.raises(raised):
        await transact(pool, tries)
    assert tries.begun == [1]
    assert await admin.fetchval(TRACES) == 0


async def test_an_error_of_the_work_itself_undoes_the_whole(pool: "Pool", admin: "Admin") -> None:
    async def break_down(_connection: "Link", _tried: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await transact(pool, Tries(break_down))
    assert await admin.fetchval(TRACES) == 0


async def test_a_statement_over_its_time_is_a_lost_database_and_not_repeated(
    database_url: str, admin: "Admin"
) -> None:
    options = options_for(database_url, statement_timeout_ms=30)
    async with open_pool(options, application_name="test") as pool:
        tries = Tries(lambda connection, _tried: connection.execute("select pg_sleep(5)"))
        with pytest.raises(DatabaseUnavailable):
            await transact(pool, tries)
    assert tries.begun == [1]
    assert await admin.fetchval(TRACES) == 0


async def test_a_session_that_is_ended_is_a_lost_database_and_the_next_call_works(
    pool: "Pool", admin: "Admin"
) -> None:
    async def die(connection: "Link", _tried: int) -> None:
        pid = await connection.fetchval("select pg_backend_pid()")
        await admin.fetchval("select pg_terminate_backend($1, 5000)", pid)
        await connection.execute("select 1")

    with pytest.raises(DatabaseUnavailable):
        await transact(pool, Tries(die))
    assert await admin.fetchval(TRACES) == 0
    assert await transact(pool, lambda connection: connection.fetchval("select 1")) == 1


async def test_a_database_that_is_not_there_is_unavailable(postgres: Server) -> None:
    options = options_for(postgres.url_of("nowhere"))
    async with open_pool(options, application_name="test") as pool:
        with pytest.raises(DatabaseUnavailable):
            await transact(pool, lambda connection: connection.fetchval("select 1"))


async def test_an_exhausted_pool_turns_callers_away_in_time(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "ACQUIRE_SECONDS_MAX", 0.05)
    options = options_for(database_url, pool_max=1)
    async with open_pool(options, application_name="test") as pool, pool.acquire():
        with pytest.raises(DatabaseUnavailable):
            await transact(pool, lambda connection: connection.fetchval("select 1"))
