"""The verbs of messages, from take to settle, brought to where a crash in them would hurt."""

from collections.abc import Mapping
from dataclasses import replace

from app.domain.breaker import Sign
from app.domain.model import Taken, Verdict
from tests.crash.beginnings import delivered, two_sets
from tests.crash.calls import Call
from tests.crash.scene import LAPSE_SECONDS, Scene, Trial
from tests.engine.stories import DEAD, DELIVERED, LATER, UNKNOWN, draft

UNAUTHORIZED = Verdict("pending", counted=False, reason="http_401", sign=Sign.UNAUTHORIZED)


async def _take(scene: Scene) -> Call:
    await two_sets(scene)
    await scene.sink.sealed("alone", draft("alone"))
    return Call("take", (10,))


async def _take_first(scene: Scene) -> Call:
    await scene.admin.execute("delete from sink.destination")
    return await _take(scene)


async def _take_spoiled(scene: Scene) -> Call:
    (first, *_) = await two_sets(scene)
    await scene.admin.execute(
        "update sink.outbox_payload set body = 'forged' where message = $1", first
    )
    return Call("take", (10,))


def _settle(verdict: Verdict, *, messages: int = 3) -> Trial:
    async def trial(scene: Scene) -> Call:
        await two_sets(scene, messages=messages)
        return Call("settle", ((await scene.sink.take_one(), verdict),))

    return trial


async def _settle_probe(scene: Scene) -> Call:
    await two_sets(scene)
    await scene.sink.settle_next(UNAUTHORIZED)
    await scene.clock.move(30)
    return Call("settle", ((await scene.sink.take_one(), replace(DELIVERED, sign=Sign.WORKS)),))


async def _lapsed(scene: Scene) -> Taken:
    """An attempt whose worker did not come back in time."""
    await two_sets(scene)
    taken = await scene.sink.take_one()
    await scene.clock.move(LAPSE_SECONDS)
    return taken


async def _late_fact(scene: Scene) -> Call:
    taken = await _lapsed(scene)
    await scene.sink.sweep_messages()
    return Call("tell", (taken,))


async def _fact_while_another_sends(scene: Scene) -> Call:
    call = await _late_fact(scene)
    await scene.clock.move(LAPSE_SECONDS)
    await scene.sink.take_one()
    return call


def _sweep_messages(attempts_max: int) -> Trial:
    async def trial(scene: Scene) -> Call:
        await _lapsed(scene)
        return Call("sweep messages", attempts_max=attempts_max)

    return trial


def _settle_strict(verdict: Verdict) -> Trial:
    async def trial(scene: Scene) -> Call:
        drafts = (draft("1", "c"), draft("2", "d"), draft("3", "c"))
        await scene.sink.sealed("a", *drafts, order="strict")
        await scene.sink.sealed("next", draft("next", "d"))
        return Call("settle", ((await scene.sink.take_one(), verdict),))

    return trial


async def _hold_what_lapsed(scene: Scene) -> Call:
    await two_sets(scene)
    await scene.sink.take(1, hold_unknown=True)
    await scene.clock.move(LAPSE_SECONDS)
    return Call("sweep messages")


async def _take_resend(scene: Scene) -> Call:
    await scene.sink.ask_resend(await delivered(scene))
    return Call("take resends")


def _settle_resend(verdict: Verdict) -> Trial:
    async def trial(scene: Scene) -> Call:
        await _take_resend(scene)
        (taken,) = await scene.sink.take_resends()
        return Call("settle resends", ((taken, verdict),))

    return trial


async def _sweep_resend(scene: Scene) -> Call:
    await _take_resend(scene)
    await scene.sink.take_resends()
    await scene.clock.move(LAPSE_SECONDS)
    return Call("sweep resends")


TRIALS: Mapping[str, Trial] = {
    "take": _take,
    "take for the first time": _take_first,
    "take what is spoiled": _take_spoiled,
    "settle delivered": _settle(DELIVERED),
    "settle the last as delivered": _settle(DELIVERED, messages=1),
    "settle dead": _settle(DEAD),
    "settle unknown": _settle(UNKNOWN),
    "settle later": _settle(LATER),
    "settle what opens the breaker": _settle(UNAUTHORIZED),
    "settle what closes the breaker": _settle_probe,
    "settle delivered in strict order": _settle_strict(DELIVERED),
    "settle dead in strict order": _settle_strict(DEAD),
    "late fact": _late_fact,
    "fact while another sends": _fact_while_another_sends,
    "sweep messages": _sweep_messages(5),
    "sweep messages, none left": _sweep_messages(1),
    "sweep messages, held": _hold_what_lapsed,
    "take a resend": _take_resend,
    "settle a resend": _settle_resend(DELIVERED),
    "settle a resend, later": _settle_resend(LATER),
    "sweep a resend": _sweep_resend,
}
