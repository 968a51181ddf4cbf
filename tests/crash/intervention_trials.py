"""What people do, brought to where a crash in it would hurt."""

from collections.abc import Mapping

from tests.crash.beginnings import delivered, stuck, two_sets
from tests.crash.calls import Call
from tests.crash.scene import Scene, Trial
from tests.engine.stories import DEAD, UNKNOWN, draft, returning


async def _pause(scene: Scene) -> Call:
    await scene.sink.accept_one("a", "c")
    return Call("pause", ("destination", "desk"))


async def _resume(scene: Scene) -> Call:
    await scene.sink.sealed("a", draft("1", "c"), conversation="c")
    await scene.sink.pause("destination", "crm")
    await scene.clock.move(10)
    return Call("resume", ("destination", "crm"))


async def _redrive_turn(scene: Scene) -> Call:
    held = await scene.held("a", "c")
    await scene.sink.accept_one("behind", "c")
    await scene.sink.hand_back(held, final=True)
    return Call("redrive turns", (held.turn,))


async def _redrive_undelivered(scene: Scene) -> Call:
    turn, _ = await stuck(scene, DEAD)
    return Call("redrive turns", (turn,))


async def _redrive_message(scene: Scene) -> Call:
    _, message = await stuck(scene, UNKNOWN)
    return Call("redrive messages", (message,))


async def _cancel_turn(scene: Scene) -> Call:
    held = await scene.held("a", "c")
    await scene.sink.accept_one("behind", "c")
    return Call("cancel turns", (held.turn,))


async def _cancel_sealed_turn(scene: Scene) -> Call:
    await two_sets(scene)
    taken = await scene.sink.take_one()
    return Call("cancel turns", (taken.turn,))


async def _cancel_messages(scene: Scene) -> Call:
    first, second, _ = await two_sets(scene)
    return Call("cancel messages", (first, second))


async def _resend(scene: Scene) -> Call:
    return Call("resend", (await delivered(scene),))


def _resolve(state: str) -> Trial:
    async def trial(scene: Scene) -> Call:
        _, message = await stuck(scene, UNKNOWN)
        return Call("resolve", (message,), (("state", state),))

    return trial


async def _operate_on_turns(scene: Scene) -> Call:
    for key in ("a", "b"):
        held = await scene.held(key, "c")
        await scene.sink.release(returning(held, final=True))
    await scene.sink.accept_one("behind", "c")
    return Call("operate", (await scene.sink.begin("turn", "redrive"),))


async def _operate_on_messages(scene: Scene) -> Call:
    await two_sets(scene)
    await scene.sink.settle_next(DEAD)
    return Call("operate", (await scene.sink.begin("message", "cancel"),))


async def _operate_on_delivered(scene: Scene) -> Call:
    await delivered(scene)
    return Call("operate", (await scene.sink.begin("message", "resend"),))


TRIALS: Mapping[str, Trial] = {
    "pause": _pause,
    "resume": _resume,
    "redrive a failed turn": _redrive_turn,
    "redrive an undelivered turn": _redrive_undelivered,
    "redrive a message": _redrive_message,
    "cancel a turn": _cancel_turn,
    "cancel a sealed turn": _cancel_sealed_turn,
    "cancel messages": _cancel_messages,
    "resolve as delivered": _resolve("delivered"),
    "resolve as cancelled": _resolve("cancelled"),
    "resend": _resend,
    "a batch of an operation on turns": _operate_on_turns,
    "a batch of an operation on messages": _operate_on_messages,
    "a batch of an operation that resends": _operate_on_delivered,
}
