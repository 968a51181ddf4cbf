"""A stage for one short run, on a database of its own."""

import random
from typing import TYPE_CHECKING

import pytest

from app.domain.ids import IdFactory
from tests.database import Clock
from tests.engine.stories import CRM, DELIVERY_POLICY, Sink
from tests.plants.stage import MAIL, Stage
from tests.plants.waiting_people import DESK

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.database import Admin


@pytest.fixture
async def stage(
    database_url: str,
    pool: "Pool",
    admin: "Admin",
    ids: IdFactory,
    clock: Clock,
    jitter: random.Random,
) -> Stage:
    """Nothing has happened yet."""
    policies = dict.fromkeys((CRM, MAIL, DESK), DELIVERY_POLICY)
    sink = Sink(pool, ids, jitter, delivery_policies=policies)
    opened = Stage(database_url, sink, admin, clock)
    await opened.travel(0)
    return opened
