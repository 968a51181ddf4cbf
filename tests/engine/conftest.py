"""The verbs, and a check of all invariants behind every test that uses them."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from app.domain.ids import IdFactory
from tests.engine.invariants import broken
from tests.engine.round_trips import Counted
from tests.engine.stories import DELIVERED, Sink, draft
from tests.engine.suspense import OneSession, Suspend, suspended

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link
    from tests.database import Admin


@pytest.fixture
async def sink(
    pool: "Pool", admin: "Admin", ids: IdFactory, jitter: random.Random
) -> AsyncIterator[Sink]:
    """The engine's verbs. When the test is over, everything that must always hold is checked."""
    yield Sink(pool, ids, jitter)
    assert await broken(admin) == {}


@pytest.fixture
def suspend(sink: Sink, admin: "Admin") -> Suspend:
    """Opens a replica that stands before its commit."""
    return lambda: suspended(sink, admin)


@pytest.fixture
async def one(sink: Sink) -> AsyncIterator[Sink]:
    """The verbs over one session that can be listened to."""
    async with sink.pool.acquire() as connection:
        alone = replace(sink, pool=cast("Pool", OneSession(connection)))
        # A new session looks types up before it first uses them.
        await alone.seal_one(await alone.hold("first"))
        # The first take for a destination makes its row.
        await alone.sealed("made", draft())
        await alone.settle_next(DELIVERED)
        yield alone


@pytest.fixture
def counted(one: Sink) -> Counted:
    """Runs a verb; returns the first words of all that it sent to the database."""
    connection: Link = cast("OneSession", one.pool).connection

    async def count(verb: Callable[[], Awaitable[object]]) -> list[str]:
        sent: list[str] = []

        def listen(record: object) -> None:
            sent.append(str(getattr(record, "query", "")).replace(";", " ").split()[0].lower())

        with connection.query_logger(listen):
            await verb()
            # The session tells its listeners in the next step of the loop.
            await asyncio.sleep(0)
        return sent

    return count
