"""The verbs of turns, from accept to seal, brought to where a crash in them would hurt."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.domain.model import Claimed, Joining
from app.engine.gather import LOCK_WAIT_MS
from tests.crash.calls import Call
from tests.crash.scene import LAPSE_SECONDS, Scene, Trial
from tests.engine.stories import arrival, draft, returning, sealing

JOINING = Joining(quiet_seconds=2.0, seconds_max=10.0, inbound_max=100, bytes_max=1 << 20)


async def _accept(scene: Scene) -> Call:
    await scene.sink.accept_one("first", "c")
    arrivals = (
        arrival("new"),
        arrival("behind", "c"),
        arrival("later", "c", delay_seconds=30),
        arrival("other", "d"),
    )
    return Call("accept", arrivals)


def _gathered(trial: Trial) -> Trial:
    """As the calls of several clients go, in one transaction."""

    async def gathered(scene: Scene) -> Call:
        return replace(await trial(scene), options=(("lock_wait_ms", LOCK_WAIT_MS),))

    return gathered


async def _accept_known(scene: Scene) -> Call:
    await scene.sink.accept_one("known", "c")
    return Call("accept", (arrival("known", "c"), arrival("new", "c")))


async def _accept_joining(scene: Scene) -> Call:
    def joining(key: str, conversation: str) -> Any:
        return arrival(key, conversation, joining=JOINING)

    await scene.sink.accept(joining("one", "c"), joining("known", "d"))
    await scene.clock.move(1)
    calls = [
        joining("two", "c"),
        joining("three", "c"),
        joining("four", "e"),
        joining("known", "d"),
    ]
    return Call("accept", tuple(calls))


async def _claim(scene: Scene) -> Call:
    await scene.sink.accept(arrival("a", "c"), arrival("b", "c"), arrival("d"))
    return Call("claim", options=(("turns_max", 5),))


async def _claim_again(scene: Scene) -> Call:
    held = await scene.held("a", "c")
    await scene.sink.hand_back(held, failed=True)
    await scene.clock.move(2)
    return await _claim_of_a_request(scene)


async def _claim_of_a_request(scene: Scene) -> Call:
    await scene.sink.accept(arrival("a", "c"), arrival("d"))
    names = {"turns_max": 5, "request_id": "r" * 16, "principal": "key", "parameters": "p"}
    return Call("claim", options=tuple(names.items()))


async def _renew(scene: Scene) -> Call:
    held = await scene.held("a", "c")
    await scene.sink.accept_one("newer", "c")
    await scene.clock.move(10)
    return Call("renew", (held,))


def _hand_back(attempts_max: int = 5, **changes: Any) -> Trial:
    async def trial(scene: Scene) -> Call:
        held = await scene.held("a", "c")
        await scene.sink.accept_one("behind", "c")
        return Call("release", (returning(held, **changes),), attempts_max=attempts_max)

    return trial


async def _seal(scene: Scene) -> Call:
    # A set before it is still on its way in the same lane, and a turn waits behind it.
    await scene.sink.sealed("before", draft("0", "c"), conversation="c")
    held = await scene.held("a", "c")
    await scene.sink.accept_one("behind", "c")
    drafts = (draft("1", "c"), draft("2", "c"), draft("3"))
    return Call("seal", (sealing(held, *drafts),))


async def _seal_two(scene: Scene) -> Call:
    held: list[Claimed] = [await scene.held(key, key) for key in ("a", "b")]
    return Call("seal", tuple(sealing(one, draft("x", "c"), draft("y", "c")) for one in held))


async def _seal_nothing(scene: Scene) -> Call:
    held = await scene.held("a", "c")
    await scene.sink.accept_one("behind", "c")
    return Call("seal", (sealing(held),))


def _sweep_turns(attempts_max: int) -> Trial:
    async def trial(scene: Scene) -> Call:
        await scene.held("a", "c")
        await scene.held("b")
        await scene.sink.accept_one("behind", "c")
        await scene.clock.move(LAPSE_SECONDS)
        return Call("sweep turns", attempts_max=attempts_max)

    return trial


async def _due(scene: Scene) -> Call:
    delayed = (arrival(key, "c", delay_seconds=n) for n, key in enumerate("ab", 5))
    await scene.sink.accept(*delayed, arrival("alone", delay_seconds=5))
    await scene.clock.move(10)
    return Call("due")


async def _accept_held_up(scene: Scene) -> Call:
    await scene.sink.accept_one("before", "c")
    await scene.sink.pause("source", "api")
    return Call("accept", (arrival("a", "c"), arrival("later", delay_seconds=30)))


async def _accept_held_up_joining(scene: Scene) -> Call:
    def joining(key: str) -> Any:
        return arrival(key, "c", joining=JOINING)

    await scene.sink.accept(joining("before"))
    await scene.sink.pause("source", "api")
    return Call("accept", (joining("a"), joining("b")))


async def _due_after_pause(scene: Scene) -> Call:
    await scene.sink.accept_one("before", "c")
    await scene.sink.pause("source", "api")
    await scene.sink.accept(arrival("a", "c"), arrival("b", "c"), arrival("alone"))
    await scene.sink.resume("source", "api")
    return Call("due after pause")


async def _keep_times(scene: Scene) -> Call:
    await scene.sink.pause("source", "api")
    await scene.sink.accept(arrival("a", delay_seconds=30), arrival("b", "c", delay_seconds=40))
    await scene.sink.resume("source", "api")
    return Call("due after pause")


async def _claim_too_old(scene: Scene) -> Call:
    await scene.sink.accept(arrival("a", "c"), arrival("b", "c"), arrival("alone"))
    await scene.clock.move(LAPSE_SECONDS)
    await scene.sink.accept_one("young", "c")
    return Call("claim", options=(("turns_max", 5), ("input_age_seconds_max", 60.0)))


async def _seal_strict(scene: Scene) -> Call:
    # A set before it is still on its way in the lane of its second message.
    await scene.sink.sealed("before", draft("0", "d"))
    held = await scene.held("a", "c")
    drafts = (draft("1", "c"), draft("2", "d"), draft("3"))
    return Call("seal", (sealing(held, *drafts, order="strict"),))


TRIALS: Mapping[str, Trial] = {
    "accept": _accept,
    "accept, gathered": _gathered(_accept),
    "accept what is known": _accept_known,
    "accept what is known, gathered": _gathered(_accept_known),
    "accept, joining": _accept_joining,
    "accept, joining, gathered": _gathered(_accept_joining),
    "accept from a paused source": _accept_held_up,
    "accept from a paused source, joining": _accept_held_up_joining,
    "claim": _claim,
    "claim past what is too old": _claim_too_old,
    "claim by request id": _claim_of_a_request,
    "claim by request id what ran before": _claim_again,
    "renew": _renew,
    "release": _hand_back(),
    "fail": _hand_back(failed=True),
    "fail, none left": _hand_back(failed=True, attempts_max=1),
    "fail for good": _hand_back(final=True),
    "seal": _seal,
    "seal two at once": _seal_two,
    "seal two at once, gathered": _gathered(_seal_two),
    "seal nothing": _seal_nothing,
    "seal in strict order": _seal_strict,
    "sweep turns": _sweep_turns(5),
    "sweep turns, none left": _sweep_turns(1),
    "due": _due,
    "due after a pause": _due_after_pause,
    "due after a pause, at a time of its own": _keep_times,
}
