"""Writes docs/lifecycle.md from the declaration of the lifecycles; a test compares."""

from collections.abc import Mapping
from pathlib import Path

from app.domain.lifecycle import (
    LANE_HOLDING,
    LANE_HOLDING_IF_KEPT,
    MESSAGE_MOVES,
    MESSAGE_STUCK,
    TURN_ENDED,
    TURN_MOVES,
    MessageState,
    Move,
    TurnState,
)

PAGE = Path(__file__).resolve().parents[1] / "docs" / "lifecycle.md"

TURN_VERBS = {
    "accept": "An inbound is committed: queued, behind the holder of its lane, or not due yet.",
    "join": "Another inbound of its conversation joins the last turn, if that was never claimed.",
    "due": "The time of a scheduled turn has come.",
    "promote": "The turn before it has left the lane.",
    "claim": "An agent takes it under a lease; this counts the attempt.",
    "renew": "The holder prolongs its lease.",
    "release": "The holder hands it back for free, as often as the queue allows.",
    "fail": "The holder failed: again after a back-off, or never.",
    "park": "The holder ends the attempt to wait under the same handle; this gives the attempt back.",
    "wake": "What it waits for has come, or its deadline has.",
    "seal": "The holder ends the attempt with its whole set: held for a person; an empty set is replied.",
    "approve": "A person lets the set go that he saw.",
    "edit": "A person lets another set go in its place.",
    "reject": "A person wants nothing of it to leave.",
    "revise": "A person sends it back with a comment, for one more attempt.",
    "expire": "Nobody decided in time: somebody is told again, or what was configured happens.",
    "escalate": "A turn of its own tells somebody of another.",
    "sweep": "The holder did not come back in time.",
    "settle": "Follows every move of a message, in its transaction.",
    "redrive": "A person gives it a new allowance: at its old place in the lane, or its stuck messages.",
    "cancel": "A person wants it no more. After the seal its messages are cancelled instead.",
}
MESSAGE_VERBS = {
    "seal": "Its set is recorded, and held if a person is to decide.",
    "edit": "A person puts another set in its place; what stays of it keeps its key.",
    "approve": "A person lets its set go.",
    "reject": "A person wants nothing of its set to leave.",
    "revise": "A person sends its turn back.",
    "expire": "Nobody decided in time, and it was configured what happens then.",
    "escalate": "Somebody is told of another turn.",
    "take": "A worker records an attempt before the first byte; what does not match its seal ends.",
    "settle": "The attempt ended in an answer, or in none.",
    "sweep": "The worker did not come back: the message may have arrived, so it is never dead.",
    "redrive": "A person gives it a new allowance, under its old key.",
    "resolve": "A person looked where it went, and says so.",
    "cancel": "A person wants it no more. While it is being sent, this stops the next attempt.",
    "resend": "A person wants it sent once more, under its old key: asked for, begun and ended beside its life.",
    "fact": "A delivery that was seen is true, whoever holds the lease by now.",
}
BIRTH = "nothing"


def page() -> str:
    """The page, as it should stand."""
    return "\n".join(
        [
            "# Lifecycles",
            "",
            "Made from `app/domain/lifecycle.py` by `python -m tests.lifecycle_page`; never edited by hand. A test",
            "runs every verb against every state and demands that exactly these moves happen.",
            "",
            "## Turn",
            "",
            *_part(TURN_MOVES, TURN_VERBS),
            f"Its lane is taken while it is {_listed(LANE_HOLDING, TurnState)}, and free from the seal on; while it is",
            f"{_listed(LANE_HOLDING_IF_KEPT, TurnState)} as its queue says in `hold_keeps_lane`.",
            f"Nothing moves it by itself when it is {_listed(TURN_ENDED, TurnState)}.",
            "",
            "## Outbox message",
            "",
            *_part(MESSAGE_MOVES, MESSAGE_VERBS),
            f"A message that is {_listed(MESSAGE_STUCK, MessageState)} stops the later ones of its set in its",
            "lane, in strict order all later ones of its set, and no other set.",
            "",
        ]
    )


def _part(moves: Mapping[str, frozenset[Move]], verbs: Mapping[str, str]) -> list[str]:
    lines = ["```mermaid", "stateDiagram-v2"]
    for (before, after), names in _by_move(moves).items():
        lines.append(f"    {before or '[*]'} --> {after}: {', '.join(names)}")
    lines += ["```", "", "| verb | from | to | when |", "|---|---|---|---|"]
    for verb, allowed in moves.items():
        befores = _codes(sorted({before or "" for before, _ in allowed}))
        afters = _codes(sorted({after for _, after in allowed}))
        lines.append(f"| {verb} | {befores} | {afters} | {verbs[verb]} |")
    return [*lines, ""]


def _by_move(moves: Mapping[str, frozenset[Move]]) -> dict[Move, list[str]]:
    named: dict[Move, list[str]] = {}
    for verb, allowed in moves.items():
        for move in sorted(allowed, key=lambda move: (move[0] or "", move[1])):
            named.setdefault(move, []).append(verb)
    return named


def _codes(states: list[str]) -> str:
    return ", ".join(f"`{state}`" if state else BIRTH for state in states)


def _listed(
    chosen: frozenset[TurnState] | frozenset[MessageState],
    states: type[TurnState] | type[MessageState],
) -> str:
    *first, last = [f"`{state}`" for state in states if state in chosen]
    return f"{', '.join(first)} or {last}" if first else last


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
