"""Held sets, what is decided about them, and follow-ups, with what a test does not care about filled in."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal
from uuid import UUID

from app.domain.model import (
    Claimed,
    Decided,
    Decision,
    DraftFollowUp,
    DraftMessage,
    EditedMessage,
    HoldPlan,
    Sealed,
    SealRequest,
)
from app.domain.seal import follow_up_hash
from app.engine import decide as deciding_verb
from app.engine.expire_holds import expire_holds
from tests.engine.stories import KEY_SECONDS, QUEUE, Sink, draft, only, sealing
from tests.engine.sweeping_stories import raise_first

HOLD_SECONDS = 3600.0
PLAN = HoldPlan("queue", HOLD_SECONDS, "escalate")


def later(text: str = "later", conversation: str | None = None, **changes: Any) -> DraftFollowUp:
    """A follow-up of the queue `default`, with the hash it should have."""
    fields: dict[str, Any] = {
        "queue": QUEUE,
        "conversation": conversation,
        "content_type": "application/json",
        "body": b'"%s"' % text.encode(),
        "delay_seconds": 0.0,
        "not_before": None,
        "key": None,
        **changes,
    }
    return DraftFollowUp(**fields, strict_json=True, hash=follow_up_hash(**fields))


def holding(
    held: Claimed,
    *drafts: DraftMessage,
    follow_ups: Sequence[DraftFollowUp] = (),
    plan: HoldPlan | None = PLAN,
    order: Literal["strict"] | None = None,
) -> SealRequest:
    """The seal of a held turn that is to wait for a person, with what it asks for later."""
    request = sealing(held, *drafts, order=order)
    digest = hashlib.sha256(request.request_hash + b"".join(one.hash for one in follow_ups))
    return replace(request, request_hash=digest.digest(), follow_ups=follow_ups, hold=plan)


async def seal_held(sink: Sink, held: Claimed, *drafts: DraftMessage, **options: Any) -> Sealed:
    """Seal a turn that is held for sure, so that its set waits."""
    outcome = only(await sink.seal(holding(held, *drafts, **options)))
    assert isinstance(outcome, Sealed)
    return outcome


def deciding(
    turn: UUID,
    payload_hash: str,
    decision: Literal["approve", "reject", "revise"] = "approve",
    *,
    by: str = "ada",
    edited: Sequence[DraftMessage | EditedMessage] | None = None,
    **changes: Any,
) -> Decision:
    """What a person decides about a set that he saw under this hash."""
    messages = (
        None
        if edited is None
        else tuple(one if isinstance(one, EditedMessage) else EditedMessage(one) for one in edited)
    )
    spelled = repr((decision, None if messages is None else [m.draft.hash for m in messages]))
    return Decision(
        **{
            "turn": turn,
            "decision": decision,
            "payload_hash": payload_hash,
            "by": by,
            "key": "key-of-ada",
            "request_hash": hashlib.sha256(spelled.encode()).digest(),
            "messages": messages,
            **changes,
        }
    )


async def decide(sink: Sink, *decisions: Decision) -> list[deciding_verb.Outcome]:
    """Decide about each."""
    return await deciding_verb.decide(
        sink.pool,
        decisions,
        policies=sink.turn_policies,
        ids=sink.ids,
        key_seconds=KEY_SECONDS,
    )


async def expire(sink: Sink, turns_max: int = 100) -> dict[str, int]:
    """Carry out the deadlines that are over."""
    swept = await expire_holds(
        sink.pool,
        policies=sink.turn_policies,
        turns_max=turns_max,
        ids=sink.ids,
        key_seconds=KEY_SECONDS,
    )
    raise_first(swept.failed)
    return dict(swept.states)


async def decide_one(sink: Sink, turn: UUID, payload_hash: str, **changes: Any) -> Decided:
    """Decide about a set that waits for sure."""
    outcome = only(await decide(sink, deciding(turn, payload_hash, **changes)))
    assert isinstance(outcome, Decided)
    return outcome


async def drafted(
    sink: Sink, key: str = "a", conversation: str | None = "c", **plan: Any
) -> tuple[Claimed, Sealed]:
    """A turn from its accept to its hold, with a message and a follow-up: the lease that it had, and its set."""
    held = await sink.hold(key, conversation)
    text = draft(key, conversation)
    asked = [later(f"after {key}")]
    return held, await seal_held(sink, held, text, follow_ups=asked, plan=replace(PLAN, **plan))
