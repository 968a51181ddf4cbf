"""What the trials of several verbs begin with."""

from uuid import UUID

from app.domain.model import Verdict
from tests.crash.scene import Scene
from tests.engine.stories import DELIVERED, draft


async def two_sets(scene: Scene, *, messages: int = 3) -> list[UUID]:
    """A sealed set in one lane, and a set of another turn behind it."""
    texts = (draft(str(n), "c") for n in range(messages))
    _, ids = await scene.sink.sealed("a", *texts, conversation="c")
    await scene.sink.sealed("next", draft("next", "c"), conversation="c")
    return ids


async def stuck(scene: Scene, verdict: Verdict) -> tuple[UUID, UUID]:
    """An undelivered turn and its stuck message."""
    turn, (first, _) = await scene.sink.sealed(
        "a", draft("1", "c"), draft("2", "c"), conversation="c"
    )
    assert await scene.sink.settle_next(verdict) == first
    return turn, first


async def delivered(scene: Scene) -> UUID:
    _, (message,) = await scene.sink.sealed("a", draft("1", "c"), conversation="c")
    await scene.sink.settle_next(DELIVERED)
    return message
