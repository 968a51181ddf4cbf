"""Bugs where something waits: for a decision, for a signal, for its time, or for somebody to be told."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from app.api import seals
from app.domain.model import HoldPlan, Sealed, SealRequest, Signalled
from app.engine import (
    cancel,
    ending,
    escalate,
    expire_holds,
    held_turn,
    hold,
    judgement,
    park,
    seal,
    settle,
    signal,
    take,
    wake_parked,
)
from app.engine.follow_ups import SetOf, accept_follow_ups
from app.engine.held_turn import HeldTurn
from app.engine.transaction import transact
from tests.plants.planting import Edit, Plant, Swap

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

KEY_SECONDS = 60.0
# What a turn asked for later, once more and under other keys.
AGAIN = """
    insert into sink.follow_up
    select
        f.turn, f.seal, f.position + 100, 'held', gen_random_uuid(), gen_random_uuid(), f.queue, f.conversation,
        f.scope, gen_random_uuid()::text, false, f.content_type, i.body, f.strict_json, f.delay_seconds, f.not_before,
        f.hash
    from sink.follow_up as f inner join sink.inbound as i on i.id = f.inbound
    where f.turn = $1 and f.state = 'accepted' and f.position < 100
    returning seal
"""


def _whatever_was_seen(held_as: Any) -> Any:
    return lambda self, payload_hash: (
        held_as(self, payload_hash) if self.live is None else self.live
    )


def _always_live(_live: Any) -> Any:
    return property(lambda self: self.holds[-1] if self.holds else None)


def _always(_is_intact: Any) -> Any:
    return property(lambda self: self.set is not None)


def _spares_what_is_sent_back(void_sets: Any) -> Any:
    async def voided(connection: "Link", endings: Sequence[ending.Ending]) -> None:
        await void_sets(connection, [one for one in endings if one.decision != "revise"])

    return voided


def _at_once(record: Any) -> Any:
    async def recorded(
        connection: "Link", sets: "Sequence[tuple[SetOf, Any]]", **options: Any
    ) -> None:
        await record(connection, sets, **options)
        await accept_follow_ups(connection, [set_of for set_of, _ in sets], key_seconds=KEY_SECONDS)

    return recorded


def _asked_again(sealed: Any) -> Any:
    async def seal_again(pool: "Pool", requests: Sequence[SealRequest], **options: Any) -> Any:
        outcomes = await sealed(pool, requests, **options)
        for request, outcome in zip(requests, outcomes, strict=True):
            if isinstance(outcome, Sealed) and outcome.repeated:
                await transact(pool, partial(_again, turn=request.turn))
        return outcomes

    return seal_again


async def _again(connection: "Link", *, turn: UUID) -> None:
    rows = await connection.fetch(AGAIN, turn)
    sets = sorted({(turn, row["seal"]) for row in rows})
    if sets:
        await accept_follow_ups(connection, sets, key_seconds=KEY_SECONDS)


def _says_so(refusal: Any) -> Any:
    def refused(one: Any, slot: Any) -> Any:
        found = refusal(one, slot)
        is_another = slot is not None and slot["request_hash"] is not None
        return Signalled(slot["state"], duplicate=True) if is_another else found

    return refused


def _no_key_is_kept(_kept_keys: Any) -> Any:
    return lambda _held, edited: [None] * len(edited)


def _as_wished(plan_hold: Any) -> Any:
    def planned(wish: Any, *asked: Any, **options: Any) -> HoldPlan | None:
        plan: HoldPlan | None = plan_hold(wish, *asked, **options)
        wished = plan is not None and wish is not None and wish.on_deadline is not None
        return replace(plan, on_deadline=wish.on_deadline) if plan and wished else plan

    return planned


def _never(_plan_hold: Any) -> Any:
    return lambda *_, **_options: None


def _a_person(_system: Any) -> Any:
    return "ada"


def _nothing(_ended: Any) -> Any:
    return frozenset[str]()


PLANTS = {
    "approved-by-id": Plant(
        "a decision is about a turn, whatever its reviewer has seen",
        [Swap(HeldTurn, "held_as", _whatever_was_seen)],
    ),
    "decided-again": Plant(
        "the last decision stays",
        [
            Swap(HeldTurn, "live", _always_live),
            Edit(ending, "decide_holds", {" and h.decision is null": ""}),
        ],
    ),
    "expired-by-own-clock": Plant(
        "deadlines of holds are compared with the clock of another machine",
        [
            Edit(expire_holds, "find_expired_holds", {"sink.now()": "clock_timestamp()"}),
            Edit(ending, "read_held_turns", {"sink.now()": "clock_timestamp()"}),
        ],
    ),
    "held-and-taken": Plant(
        "a take finds what waits for a decision",
        [
            Edit(
                take,
                "take_messages",
                {
                    "o.state = 'pending'": "o.state in ('pending', 'held')",
                    "        reason = null,\n": "        reason = null, due_since = coalesce(o.due_since, o.due_at),\n",
                },
            )
        ],
    ),
    "void-and-live": Plant(
        "a set that is sent back stays beside the one that replaces it",
        [Swap(ending, "void_sets", _spares_what_is_sent_back)],
    ),
    "forged-and-approved": Plant(
        "what is stored is let go unchecked", [Swap(HeldTurn, "is_intact", _always)]
    ),
    "key-of-what-stays": Plant(
        "every message of an edited set has a new key",
        [Swap(judgement, "kept_keys", _no_key_is_kept)],
    ),
    "follows-the-draft": Plant(
        "what a held set asks for later happens before its approval",
        [Swap(seal, "record_follow_ups", _at_once)],
    ),
    "follows-twice": Plant(
        "a repeated seal asks once more for what it wanted later",
        [Swap(seal, "seal", _asked_again)],
    ),
    "follows-the-rejected": Plant(
        "what a rejected set asked for later is left to wait",
        [Edit(ending, "void_sets", {"and not item.is_carried": "and false"})],
    ),
    "never-reminded": Plant(
        "nobody is told again of a hold that has escalated",
        [
            Edit(
                expire_holds,
                "find_expired_holds",
                {"t.state in ('held', 'escalated')": "t.state = 'held'"},
            )
        ],
    ),
    "expired-in-silence": Plant(
        "a hold expires and nobody is told",
        [
            Edit(
                expire_holds,
                "escalate_holds",
                {"sink.now() from moved\norder": "sink.now() from moved where false\norder"},
            )
        ],
    ),
    "held-in-silence": Plant(
        "a set is held and nobody is told",
        [Edit(hold, "add_holds", {"    order by item.turn\n": "    where false\n"})],
    ),
    "tells-of-itself": Plant(
        "an escalation that fails is escalated",
        [
            Edit(
                settle, "settle_messages", {"where t.id = s.turn) is null": "where false) is null"}
            ),
            Edit(escalate, "find_told", {" and t.about is null": ""}),
        ],
    ),
    "in-a-persons-name": Plant(
        "what a deadline does is recorded as a person's decision",
        [Swap(held_turn, "SYSTEM", _a_person)],
    ),
    "sent-as-wished": Plant(
        "an agent says what becomes of its set at the deadline",
        [Swap(seals, "plan_hold", _as_wished)],
    ),
    "never-held": Plant(
        "a queue that holds everything does not hold what no agent wants held",
        [Swap(seals, "plan_hold", _never)],
    ),
    "deaf-park": Plant(
        "a park does not look what its turn was told before",
        [Edit(park, "meet_signals", {"from kept where answers": "from kept where false"})],
    ),
    "park-counts": Plant(
        "a park costs an attempt",
        [Edit(park, "park_turns", {"t.attempts_used - 1": "t.attempts_used"})],
    ),
    "second-is-heard": Plant(
        "whoever tells a turn another thing is told that it was heard",
        [Swap(signal, "_refusal", _says_so)],
    ),
    "woken-from-the-dead": Plant(
        "a signal wakes a turn that was cancelled while it waited",
        [
            Edit(
                cancel,
                "cancel_turns",
                {"w.attempt = cancelled.attempt and cancelled": "false and cancelled"},
            ),
            Edit(signal, "find_slots", {" and t.state = 'parked'": ""}),
            Edit(
                wake_parked,
                "wake_turns",
                {
                    "        state = 'queued',\n": "        state = 'queued', reason = null,\n",
                    "and t.state = 'parked' and": "and",
                },
            ),
            Swap(signal, "_ENDED", _nothing),
        ],
    ),
    "heard-by-nobody": Plant(
        "what ended a wait is not told to the next attempt",
        [Edit(wake_parked, "wake_turns", {"signal = woken.number": "signal = 1 + woken.number"})],
    ),
}
