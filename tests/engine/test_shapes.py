"""Columns fit their state: of all combinations the database takes exactly those that mean something."""

from itertools import product
from typing import TYPE_CHECKING

import pytest

from app.domain.lifecycle import MessageState, TurnState

if TYPE_CHECKING:
    from tests.database import Admin

ASKING = {"held", "escalated"}
SEALED = {"sealed", "replied", "undelivered", *ASKING}

# Values of a column that stands for "set", by name; unset is null, or what is given second.
TURN = {
    "token": ("gen_random_uuid()", "null"),
    "lease_expires_at": ("sink.now()", "null"),
    "lease_seconds": ("60", "null"),
    "conversation": ("'c'", "null"),
    "lane_seq": ("1", "null"),
    "payload_hash": ("'\\x00'", "null"),
    "seal": ("1", "0"),
    "reason": ("'why'", "null"),
    "deadline_at": ("sink.now()", "null"),
}
MESSAGE = {
    "attempt_id": ("gen_random_uuid()", "null"),
    "lease_expires_at": ("sink.now()", "null"),
    "blocked_by": ("gen_random_uuid()", "null"),
    "due_since": ("sink.now()", "null"),
    "delivered_at": ("sink.now()", "null"),
    "reason": ("'why'", "null"),
    "may_have_arrived": ("true", "false"),
    "conversation": ("'c'", "null"),
    "place": ("1", "null"),
    "cancel_asked": ("true", "false"),
}

FITS = """
    create function pg_temp.fits(statement text) returns boolean language plpgsql as $$
    begin
        execute statement;
        return true;
    exception when check_violation then
        return false;
    end $$
"""

Combination = tuple[str, frozenset[str]]


def turn_means_something(state: str, are_set: frozenset[str]) -> bool:
    lease = {"token", "lease_expires_at", "lease_seconds"}
    if are_set & lease != (lease if state == "processing" else set()):
        return False
    if ("deadline_at" in are_set) != (state in {"parked", *ASKING}):
        return False
    # What was cancelled while it was held keeps its hash; what is to be revised has only the number of its set.
    has_hash, has_seal = "payload_hash" in are_set, "seal" in are_set
    if state != "cancelled" and has_hash != (state in SEALED):
        return False
    if has_hash and not has_seal:
        return False
    if ("reason" in are_set) != (state in ("failed", "cancelled")):
        return False
    if "conversation" not in are_set:
        return "lane_seq" not in are_set and state != "waiting"
    # What was cancelled may have had a place in its lane, or not yet.
    return state == "cancelled" or ("lane_seq" in are_set) == (state != "scheduled")


def message_means_something(state: str, are_set: frozenset[str]) -> bool:
    lease = {"attempt_id", "lease_expires_at"}
    if are_set & lease != (lease if state == "sending" else set()):
        return False
    if "cancel_asked" in are_set and state != "sending":
        return False
    if ("delivered_at" in are_set) != (state == "delivered"):
        return False
    if state in ("dead", "unknown") and "reason" not in are_set:
        return False
    if state == "dead" and "may_have_arrived" in are_set:
        return False
    return _has_its_turn(state, are_set) and _has_its_place(state, are_set)


def _has_its_turn(state: str, are_set: frozenset[str]) -> bool:
    if state == "held":
        return not are_set & {"blocked_by", "due_since"}
    if "blocked_by" in are_set:
        return state == "pending"
    # What was cancelled may have been due at no time yet.
    return "due_since" in are_set or state == "cancelled"


def _has_its_place(state: str, are_set: frozenset[str]) -> bool:
    if state == "held" or "conversation" not in are_set:
        return "place" not in are_set
    return "place" in are_set or state == "cancelled"


def _combinations(states: list[str], columns: dict[str, tuple[str, str]]) -> list[Combination]:
    return [
        (state, frozenset(name for name, is_set in zip(columns, choice, strict=True) if is_set))
        for state in states
        for choice in product((False, True), repeat=len(columns))
    ]


async def _taken(
    admin: "Admin", insert: str, columns: dict[str, tuple[str, str]], tried: list[Combination]
) -> set[Combination]:
    """The combinations that the database takes."""
    await admin.execute(FITS)
    # The other lane rule would stop the second row before the one that is asked about.
    await admin.execute("drop index sink.turn_lane_head")
    statements = [
        insert.format(
            names=", ".join(columns),
            state=state,
            values=", ".join(
                given if name in are_set else missing for name, (given, missing) in columns.items()
            ),
        )
        for state, are_set in tried
    ]
    rows = await admin.fetch(
        "select pg_temp.fits(s) from unnest($1::text[]) with ordinality as t (s, n) order by n",
        statements,
    )
    return {one for one, row in zip(tried, rows, strict=True) if row[0]}


@pytest.mark.parametrize("state", list(TurnState))
async def test_a_turn_has_what_its_state_needs_and_nothing_else(
    admin: "Admin", state: TurnState
) -> None:
    insert = """
        insert into sink.turn (id, queue, priority, state, created_at, due_at, input_bytes, {names})
        values (gen_random_uuid(), 'q', 0, '{state}', sink.now(), sink.now(), 1, {values})
    """
    tried = _combinations([state], TURN)
    assert await _taken(admin, insert, TURN, tried) == {
        one for one in tried if turn_means_something(*one)
    }


@pytest.mark.parametrize("state", list(MessageState))
async def test_a_message_has_what_its_state_needs_and_nothing_else(
    admin: "Admin", state: MessageState
) -> None:
    insert = """
        insert into sink.outbox (id, turn, seal, position, queue, destination, state, due_at, {names})
        values (gen_random_uuid(), gen_random_uuid(), 1, 0, 'q', 'd', '{state}', sink.now(), {values})
    """
    tried = _combinations([state], MESSAGE)
    assert await _taken(admin, insert, MESSAGE, tried) == {
        one for one in tried if message_means_something(*one)
    }


@pytest.mark.parametrize(
    "change",
    [
        "attempts_used = -1",
        "attempts_used = 2",
        "releases = -1",
        "priority = 101",
        "priority = -101",
    ],
)
async def test_counts_of_a_turn_add_up(admin: "Admin", change: str) -> None:
    await admin.execute(FITS)
    await admin.execute(
        "insert into sink.turn (id, queue, priority, state, created_at, due_at, input_bytes, attempt)"
        " values (gen_random_uuid(), 'q', 0, 'queued', sink.now(), sink.now(), 1, 1)"
    )
    assert not await admin.fetchval("select pg_temp.fits($1)", f"update sink.turn set {change}")
    assert await admin.fetchval("select pg_temp.fits('update sink.turn set attempts_used = 1')")


async def test_a_lane_never_has_two_heads(admin: "Admin") -> None:
    insert = """
        insert into sink.turn (
            id, queue, conversation, lane_seq, priority, state, created_at, due_at, input_bytes
        )
        values (gen_random_uuid(), 'q', 'c', $1, 0, 'queued', sink.now(), sink.now(), 1)
    """
    await admin.execute(insert, 1)
    with pytest.raises(Exception, match="turn_lane_head"):
        await admin.execute(insert, 2)
