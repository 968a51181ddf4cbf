"""Every verb, brought to where a crash in it would hurt."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from app.domain.breaker import Sign
from app.domain.model import Claimed, Joining, Taken, Verdict
from app.engine.gather import LOCK_WAIT_MS
from tests.crash import waiting_trials
from tests.crash.calls import Call
from tests.crash.scene import LAPSE_SECONDS, Scene
from tests.crash.waiting_trials import Trial
from tests.engine.stories import (
    DEAD,
    DELIVERED,
    LATER,
    UNKNOWN,
    arrival,
    draft,
    returning,
    sealing,
)
from tests.engine.walks import DAY

UNAUTHORIZED = Verdict("pending", counted=False, reason="http_401", sign=Sign.UNAUTHORIZED)
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


async def _set(scene: Scene, *, messages: int = 3) -> list[UUID]:
    """A sealed set in one lane, and a set of another turn behind it."""
    texts = (draft(str(n), "c") for n in range(messages))
    _, ids = await scene.sink.sealed("a", *texts, conversation="c")
    await scene.sink.sealed("next", draft("next", "c"), conversation="c")
    return ids


async def _take(scene: Scene) -> Call:
    await _set(scene)
    await scene.sink.sealed("alone", draft("alone"))
    return Call("take", (10,))


async def _take_first(scene: Scene) -> Call:
    await scene.admin.execute("delete from sink.destination")
    return await _take(scene)


async def _take_spoiled(scene: Scene) -> Call:
    (first, *_) = await _set(scene)
    await scene.admin.execute(
        "update sink.outbox_payload set body = 'forged' where message = $1", first
    )
    return Call("take", (10,))


def _settle(verdict: Verdict, *, messages: int = 3) -> Trial:
    async def trial(scene: Scene) -> Call:
        await _set(scene, messages=messages)
        return Call("settle", ((await scene.sink.take_one(), verdict),))

    return trial


async def _settle_probe(scene: Scene) -> Call:
    await _set(scene)
    await scene.sink.settle_next(UNAUTHORIZED)
    await scene.clock.move(30)
    return Call("settle", ((await scene.sink.take_one(), replace(DELIVERED, sign=Sign.WORKS)),))


async def _lapsed(scene: Scene) -> Taken:
    """An attempt whose worker did not come back in time."""
    await _set(scene)
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


def _sweep_turns(attempts_max: int) -> Trial:
    async def trial(scene: Scene) -> Call:
        await scene.held("a", "c")
        await scene.held("b")
        await scene.sink.accept_one("behind", "c")
        await scene.clock.move(LAPSE_SECONDS)
        return Call("sweep turns", attempts_max=attempts_max)

    return trial


def _sweep_messages(attempts_max: int) -> Trial:
    async def trial(scene: Scene) -> Call:
        await _lapsed(scene)
        return Call("sweep messages", attempts_max=attempts_max)

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


async def _stuck(scene: Scene, verdict: Verdict) -> tuple[UUID, UUID]:
    """An undelivered turn and its stuck message."""
    turn, (first, _) = await scene.sink.sealed(
        "a", draft("1", "c"), draft("2", "c"), conversation="c"
    )
    assert await scene.sink.settle_next(verdict) == first
    return turn, first


async def _redrive_undelivered(scene: Scene) -> Call:
    turn, _ = await _stuck(scene, DEAD)
    return Call("redrive turns", (turn,))


async def _redrive_message(scene: Scene) -> Call:
    _, message = await _stuck(scene, UNKNOWN)
    return Call("redrive messages", (message,))


async def _cancel_turn(scene: Scene) -> Call:
    held = await scene.held("a", "c")
    await scene.sink.accept_one("behind", "c")
    return Call("cancel turns", (held.turn,))


async def _cancel_sealed_turn(scene: Scene) -> Call:
    await _set(scene)
    taken = await scene.sink.take_one()
    return Call("cancel turns", (taken.turn,))


async def _cancel_messages(scene: Scene) -> Call:
    first, second, _ = await _set(scene)
    return Call("cancel messages", (first, second))


async def _seal_strict(scene: Scene) -> Call:
    # A set before it is still on its way in the lane of its second message.
    await scene.sink.sealed("before", draft("0", "d"))
    held = await scene.held("a", "c")
    drafts = (draft("1", "c"), draft("2", "d"), draft("3"))
    return Call("seal", (sealing(held, *drafts, order="strict"),))


def _settle_strict(verdict: Verdict) -> Trial:
    async def trial(scene: Scene) -> Call:
        drafts = (draft("1", "c"), draft("2", "d"), draft("3", "c"))
        await scene.sink.sealed("a", *drafts, order="strict")
        await scene.sink.sealed("next", draft("next", "d"))
        return Call("settle", ((await scene.sink.take_one(), verdict),))

    return trial


async def _hold_what_lapsed(scene: Scene) -> Call:
    await _set(scene)
    await scene.sink.take(1, hold_unknown=True)
    await scene.clock.move(LAPSE_SECONDS)
    return Call("sweep messages")


async def _delivered(scene: Scene) -> UUID:
    _, (message,) = await scene.sink.sealed("a", draft("1", "c"), conversation="c")
    await scene.sink.settle_next(DELIVERED)
    return message


async def _resend(scene: Scene) -> Call:
    return Call("resend", (await _delivered(scene),))


async def _take_resend(scene: Scene) -> Call:
    await scene.sink.ask_resend(await _delivered(scene))
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


def _resolve(state: str) -> Trial:
    async def trial(scene: Scene) -> Call:
        _, message = await _stuck(scene, UNKNOWN)
        return Call("resolve", (message,), (("state", state),))

    return trial


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


async def _operate_on_turns(scene: Scene) -> Call:
    for key in ("a", "b"):
        held = await scene.held(key, "c")
        await scene.sink.release(returning(held, final=True))
    await scene.sink.accept_one("behind", "c")
    return Call("operate", (await scene.sink.begin("turn", "redrive"),))


async def _operate_on_messages(scene: Scene) -> Call:
    await _set(scene)
    await scene.sink.settle_next(DEAD)
    return Call("operate", (await scene.sink.begin("message", "cancel"),))


async def _operate_on_delivered(scene: Scene) -> Call:
    await _delivered(scene)
    return Call("operate", (await scene.sink.begin("message", "resend"),))


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
    "sweep turns": _sweep_turns(5),
    "sweep turns, none left": _sweep_turns(1),
    "sweep messages": _sweep_messages(5),
    "sweep messages, none left": _sweep_messages(1),
    "sweep messages, held": _hold_what_lapsed,
    "due": _due,
    "due after a pause": _due_after_pause,
    "due after a pause, at a time of its own": _keep_times,
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
    "take a resend": _take_resend,
    "settle a resend": _settle_resend(DELIVERED),
    "settle a resend, later": _settle_resend(LATER),
    "sweep a resend": _sweep_resend,
    "a batch of an operation on turns": _operate_on_turns,
    "a batch of an operation on messages": _operate_on_messages,
    "a batch of an operation that resends": _operate_on_delivered,
    "purge": _purge,
    "drop idle lanes": _drop_lanes("lane"),
    "drop idle delivery lanes": _drop_lanes("delivery_lane"),
    "erase": _erase,
    **waiting_trials.TRIALS,
}
