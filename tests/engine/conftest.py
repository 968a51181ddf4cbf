"""The verbs, and a check of all invariants behind every test that uses them."""

import random
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from app.domain.ids import IdFactory
from tests.engine.invariants import broken
from tests.engine.stories import Sink
from tests.engine.suspense import Suspend, suspended

if TYPE_CHECKING:
    from app.engine.database import Pool
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
