"""Endings: what becomes of a held set, whoever decides: it is let go, changed, sent back, or ends.

All that follows is done in one transaction, whose beginning has locked the turns behind their lanes. A set that is let
go gets its places now, all of them at once and in the order that its seal would have given them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.ids import IdFactory
from app.domain.lifecycle import TurnState
from app.domain.model import DecisionName, DraftMessage
from app.domain.seal import spell
from app.engine.delivery import settle_sets
from app.engine.follow_ups import accept_follow_ups, carry_follow_ups
from app.engine.held_set import HeldSet
from app.engine.lane import lock_lanes, lock_turns, promote
from app.engine.message_set import (
    NewMessage,
    Standing,
    enter_lanes,
    give_places,
    let_messages_go,
    own_key,
    record_sets,
)
from app.engine.statements import load

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.statements import Link

SQL = load(__file__)

# The verb that carries out each decision, where a person made it, and why a message of a void set is cancelled.
_REASONS: Mapping[str, str] = {
    "edit": "edited",
    "reject": "rejected",
    "revise": "revised",
    "cancel": "cancelled",
    "expire": "hold_expired",
}


@dataclass(frozen=True, slots=True)
class Edit:
    """What replaces a set: its messages with the keys that they keep, if any, and the hash of the whole."""

    messages: Sequence[tuple[DraftMessage, str | None]]
    digest: bytes


@dataclass(frozen=True, slots=True)
class Ending:
    """What becomes of one held turn. `by` is who said so, `key` with which key: the deadline needs none."""

    turn: UUID
    seal: int
    state: str
    payload_hash: bytes
    decision: DecisionName
    by: str
    key: str | None = None
    comment: str | None = None
    request_hash: bytes | None = None
    edit: Edit | None = None

    @property
    def verb(self) -> str:
        """The move that it makes."""
        return "expire" if self.key is None else self.decision

    @property
    def lets_go(self) -> bool:
        """Whether anything leaves."""
        return self.decision in ("approve", "edit", "send")

    @property
    def live_seal(self) -> int:
        """The number of the set that is live afterwards."""
        return self.seal if self.edit is None else self.seal + 1

    @property
    def live_hash(self) -> bytes:
        """What binds that set."""
        return self.payload_hash if self.edit is None else self.edit.digest

    @property
    def reason(self) -> str:
        """Why what it leaves out is cancelled."""
        return _REASONS[self.verb]

    @property
    def detail(self) -> str:
        """What its events tell of it."""
        told = {"by": self.by, "payload_hash": spell(self.payload_hash)}
        if self.edit is not None:
            told["new_hash"] = spell(self.edit.digest)
        return json.dumps(told)


async def lock_held_turns(connection: "Link", turns: Sequence[UUID]) -> "dict[UUID, Record]":
    """Lock these turns behind their lanes; returns how they stand from now on."""
    await lock_lanes(connection, turns)
    await lock_turns(connection, turns)
    return {
        row["id"]: row for row in await SQL["read_held_turns"].rows(connection, turns=list(turns))
    }


async def end_holds(
    connection: "Link",
    endings: Sequence[Ending],
    sets: Mapping[UUID, HeldSet],
    *,
    ids: IdFactory,
    key_seconds: float,
) -> None:
    """Carry out endings of locked turns, one for each; `sets` has those that are let go or replaced, and intact.

    Sets of one call stand in their lanes in its order. Nothing else is to be locked after it.
    """
    if not endings:
        return
    await _move_turns(connection, endings)
    await record_decisions(connection, endings)
    await promote(connection, [one.turn for one in endings if one.decision != "revise"])
    gone = [one for one in endings if one.lets_go]
    void = [one for one in endings if one.edit is not None or not one.lets_go]
    await _say(connection, gone, void, sets, ids)
    sealed = [(one.turn, one.live_seal) for one in gone]
    if sealed:
        # A set without messages has nothing to confirm.
        await settle_sets(connection, [turn for turn, _ in sealed])
        await accept_follow_ups(connection, sealed, key_seconds=key_seconds)


async def void_sets(connection: "Link", endings: Sequence[Ending]) -> None:
    """Cancel what these sets say, and what they ask for later unless another set carries it on."""
    await SQL["void_sets"].run(
        connection,
        turns=[one.turn for one in endings],
        seals=[one.seal for one in endings],
        verbs=[one.verb for one in endings],
        reasons=[one.reason for one in endings],
        details=[json.dumps({"by": one.by}) for one in endings],
        carried=[one.edit is not None for one in endings],
    )


async def record_decisions(connection: "Link", endings: Sequence[Ending]) -> None:
    """Record what was decided about these sets."""
    await SQL["decide_holds"].run(
        connection,
        turns=[one.turn for one in endings],
        seals=[one.seal for one in endings],
        decisions=[one.decision for one in endings],
        decided_by=[one.by for one in endings],
        decided_with=[one.key for one in endings],
        comments=[one.comment for one in endings],
        request_hashes=[one.request_hash for one in endings],
        new_hashes=[None if one.edit is None else one.edit.digest for one in endings],
    )


async def _move_turns(connection: "Link", endings: Sequence[Ending]) -> None:
    back = [one for one in endings if one.decision == "revise"]
    rest = [one for one in endings if one.decision != "revise"]
    if rest:
        await SQL["end_turns"].run(
            connection,
            turns=[one.turn for one in rest],
            from_states=[one.state for one in rest],
            to_states=[TurnState.SEALED if one.lets_go else TurnState.CANCELLED for one in rest],
            verbs=[one.verb for one in rest],
            reasons=[None if one.lets_go else one.reason for one in rest],
            seals=[one.live_seal for one in rest],
            payload_hashes=[one.live_hash for one in rest],
            details=[one.detail for one in rest],
        )
    if back:
        await SQL["send_back"].run(
            connection,
            turns=[one.turn for one in back],
            from_states=[one.state for one in back],
            details=[one.detail for one in back],
        )


async def _say(
    connection: "Link",
    gone: Sequence[Ending],
    void: Sequence[Ending],
    sets: Mapping[UUID, HeldSet],
    ids: IdFactory,
) -> None:
    """Give places to all that is let go, and write it; what is not sent is cancelled."""
    standing: list[Standing] = []
    drafts: list[tuple[Standing, Ending, int, DraftMessage, str]] = []
    for one in gone:
        if one.edit is None:
            standing += sets[one.turn].standing
            continue
        for position, (draft, key) in enumerate(one.edit.messages):
            held_set = sets[one.turn]
            message = held_set.stand(ids.new(), draft.conversation, draft.destination)
            standing.append(message)
            drafts.append((message, one, position, draft, key or own_key(message.id)))
    placed = give_places(standing, await enter_lanes(connection, standing))
    if void:
        await void_sets(connection, void)
    added = {message.id for message, *_ in drafts}
    held = [placed[message.id] for message in standing if message.id not in added]
    if held:
        await let_messages_go(connection, held, {one.turn: one.verb for one in gone})
    if drafts:
        new = [
            NewMessage(placed[message.id], one.live_seal, position, draft, key)
            for message, one, position, draft, key in drafts
        ]
        await record_sets(connection, [], new, verb="edit")
    edited = [(one.turn, one.seal) for one in gone if one.edit is not None]
    if edited:
        await carry_follow_ups(connection, edited)
