"""The verbs, to bring about what is read."""

import random
from typing import TYPE_CHECKING

import pytest

from app.domain.ids import IdFactory
from tests.engine.stories import Sink

if TYPE_CHECKING:
    from app.engine.database import Pool


@pytest.fixture
def sink(pool: "Pool", ids: IdFactory, jitter: random.Random) -> Sink:
    """The engine's verbs."""
    return Sink(pool, ids, jitter)
