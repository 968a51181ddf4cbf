"""Judgement: what a decision comes to, given how its turn stands and what was decided about it before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.domain.edit import HeldMessage, NotOfTheSet, kept_keys
from app.domain.model import (
    Decision,
    DecisionName,
    EditedMessage,
    NoSuchTurn,
    NotAllowed,
    NotHeld,
    NotIntact,
    PayloadChanged,
    RevisionsExhausted,
    TurnPolicy,
    UnknownMessage,
)
from app.domain.seal import spell
from app.engine.ending import Edit, Ending
from app.engine.held_set import HeldSet
from app.engine.held_turn import HeldTurn, end_by_deadline

# What is answered without a decision of its own.
Refused = (
    PayloadChanged
    | NotHeld
    | RevisionsExhausted
    | NotIntact
    | UnknownMessage
    | NotAllowed
    | NoSuchTurn
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What becomes of the turn, if anything, and what is answered: a refusal, or the decision about a hold.

    `seal` is the number of that hold; `said` whether this decision said it, now or before.
    """

    turn: UUID
    ending: Ending | None = None
    refused: Refused | None = None
    seal: int = 0
    said: bool = False


def judge(
    decision: Decision, held: HeldTurn | None, policies: Mapping[str, TurnPolicy]
) -> Judgement:
    """Judge one decision about a turn; None for a turn that does not exist."""
    turn = decision.turn
    if held is None:
        return Judgement(turn, refused=NoSuchTurn())
    seen, live = held.held_as(decision.payload_hash), held.live
    if seen is not None and seen["request_hash"] == decision.request_hash:
        return Judgement(turn, seal=seen["seal"], said=True)
    if live is None:
        return _too_late(decision, held)
    changed = PayloadChanged(spell(live["payload_hash"]), held.state)
    if held.expired is not None:
        if held.expired == "send" and not held.is_intact:
            return Judgement(turn, refused=NotIntact(held.state))
        ending = end_by_deadline(held, held.expired)
        if seen is live:
            return Judgement(turn, ending, seal=live["seal"])
        return Judgement(turn, ending, refused=changed)
    if seen is not live:
        return Judgement(turn, refused=changed)
    if not decision.allowed:
        return Judgement(turn, refused=NotAllowed())
    return _first_decision(decision, held, policies)


def _too_late(decision: Decision, held: HeldTurn) -> Judgement:
    if not held.holds:
        return Judgement(decision.turn, refused=NotHeld(held.state))
    seen = held.held_as(decision.payload_hash) or held.edited_to(decision.payload_hash)
    if seen is not None:
        return Judgement(decision.turn, seal=seen["seal"])
    digest = held.row["payload_hash"]
    now = PayloadChanged(None if digest is None else spell(digest), held.state)
    return Judgement(decision.turn, refused=now)


def _first_decision(
    decision: Decision, held: HeldTurn, policies: Mapping[str, TurnPolicy]
) -> Judgement:
    turn = decision.turn
    name: DecisionName = decision.decision
    edit: Edit | None = None
    if name == "revise":
        revisions_max = policies[held.row["queue"]].revisions_max
        if held.row["revisions"] >= revisions_max:
            return Judgement(turn, refused=RevisionsExhausted(revisions_max, held.state))
    if name == "approve" and not held.is_intact:
        return Judgement(turn, refused=NotIntact(held.state))
    if name == "approve" and held.set is not None and decision.messages is not None:
        name = "edit"
        try:
            edit = _edit(held.set, decision.messages)
        except NotOfTheSet as error:
            return Judgement(turn, refused=UnknownMessage(error.position))
    ending = Ending(
        turn=turn,
        seal=held.row["seal"],
        state=held.state,
        payload_hash=held.row["payload_hash"],
        decision=name,
        by=decision.by,
        key=decision.key,
        comment=decision.comment,
        request_hash=decision.request_hash,
        edit=edit,
    )
    return Judgement(turn, ending, seal=ending.seal, said=True)


def _edit(held: HeldSet, messages: Sequence[EditedMessage]) -> Edit:
    before = [
        HeldMessage(
            row["id"],
            row["key"],
            row["destination"],
            row["recipient"],
            row["conversation"],
            row["hash"],
        )
        for row in held.messages
    ]
    drafts = [message.draft for message in messages]
    keys = kept_keys(before, messages)
    digest = held.hash_with([draft.hash for draft in drafts])
    return Edit(list(zip(drafts, keys, strict=True)), digest)
