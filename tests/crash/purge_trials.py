"""What makes turns go, brought to where a crash in it would hurt."""

from collections.abc import Mapping

from tests.crash.calls import Call
from tests.crash.scene import Scene, Trial
from tests.engine.stories import DELIVERED, draft
from tests.engine.walks import DAY


async def _ended(scene: Scene) -> None:
    """A turn that is over, a failed one, and one that waits."""
    await scene.sink.sealed("over", draft("1", "c"), draft("2", "c"), conversation="c")
    for _ in range(2):
        await scene.sink.settle_next(DELIVERED)
    await scene.sink.hand_back(await scene.held("failed", "d"), final=True)
    await scene.sink.accept_one("live", "e")
    await scene.clock.move(31 * DAY)


async def _purge(scene: Scene) -> Call:
    await _ended(scene)
    return Call("purge")


def _drop_lanes(table: str) -> Trial:
    async def trial(scene: Scene) -> Call:
        await _ended(scene)
        await Call("purge").made(scene.sink)
        return Call("drop lanes", (table,))

    return trial


async def _erase(scene: Scene) -> Call:
    await _ended(scene)
    return Call("erase", ("c",))


TRIALS: Mapping[str, Trial] = {
    "purge": _purge,
    "drop idle lanes": _drop_lanes("lane"),
    "drop idle delivery lanes": _drop_lanes("delivery_lane"),
    "erase": _erase,
}
