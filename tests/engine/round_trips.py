"""What is counted of a verb, and rows as many as are wanted for it."""

from collections.abc import Awaitable, Callable

import pytest

from app.domain.model import Claimed, Taken
from tests.engine.stories import Sink, arrival, draft, sealing

Counted = Callable[[Callable[[], Awaitable[object]]], Awaitable[list[str]]]

MANY = pytest.mark.parametrize("many", [1, 50])


async def hold_many(sink: Sink, many: int) -> list[Claimed]:
    await sink.accept(*(arrival(f"k{n}", f"c{n}") for n in range(many)))
    return await sink.claim(many)


async def take_many(sink: Sink, many: int) -> list[Taken]:
    held = await hold_many(sink, many)
    await sink.seal(
        *(sealing(h, draft("1", h.conversation), draft("2", h.conversation)) for h in held)
    )
    taken = await sink.take()
    assert len(taken) == many
    return taken
