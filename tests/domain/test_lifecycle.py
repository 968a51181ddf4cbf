"""The declaration of the lifecycles agrees with itself, and the page about them with it."""

from collections.abc import Mapping

import pytest

from app.domain.lifecycle import (
    LANE_HOLDING,
    MESSAGE_CLOSED,
    MESSAGE_MOVES,
    MESSAGE_STUCK,
    TURN_ENDED,
    TURN_MOVES,
    MessageState,
    Move,
    TurnState,
)
from tests.lifecycle_page import MESSAGE_VERBS, PAGE, TURN_VERBS, page

LIVES = [(TURN_MOVES, TurnState), (MESSAGE_MOVES, MessageState)]


def _reached(moves: Mapping[str, frozenset[Move]]) -> set[str]:
    """The states that some chain of moves leads to, from birth."""
    every = [move for allowed in moves.values() for move in allowed]
    reached: set[str | None] = {None}
    for _ in range(len(every)):
        reached |= {after for before, after in every if before in reached}
    return {state for state in reached if state is not None}


@pytest.mark.parametrize(("moves", "states"), LIVES)
def test_every_state_can_be_reached_and_no_move_names_another(
    moves: Mapping[str, frozenset[Move]], states: type[TurnState] | type[MessageState]
) -> None:
    assert _reached(moves) == set(states)
    for allowed in moves.values():
        assert {before for before, _ in allowed} <= {None, *states}


def test_a_turn_steps_back_only_from_processing_to_queued_and_from_undelivered_to_sealed() -> None:
    order = ["scheduled", "waiting", "queued", "processing", "sealed", "undelivered", "replied"]
    back = {
        (before, after)
        for allowed in TURN_MOVES.values()
        for before, after in allowed
        if before in order and after in order and order.index(after) < order.index(before)
    }
    assert back == {("processing", "queued"), ("undelivered", "sealed")}


def test_what_is_confirmed_or_replied_never_moves_again() -> None:
    for allowed in TURN_MOVES.values():
        assert all(before != TurnState.REPLIED for before, _ in allowed)
    for verb, allowed in MESSAGE_MOVES.items():
        # A resend repeats a message, and moves nothing.
        stays = {("delivered", "delivered")} if verb == "resend" else set()
        assert {move for move in allowed if move[0] == MessageState.DELIVERED} == stays


def test_a_cancelled_message_moves_only_by_a_fact_and_a_cancelled_turn_never_again() -> None:
    for allowed in TURN_MOVES.values():
        assert all(before != TurnState.CANCELLED for before, _ in allowed)
    for verb, allowed in MESSAGE_MOVES.items():
        assert verb == "fact" or all(before != MessageState.CANCELLED for before, _ in allowed)


def test_a_lapse_is_never_dead() -> None:
    assert {after for _, after in MESSAGE_MOVES["sweep"]} == {"pending", "unknown", "cancelled"}


def test_a_turn_that_ended_holds_no_lane_and_a_stuck_message_is_not_closed() -> None:
    assert not TURN_ENDED & LANE_HOLDING
    assert not MESSAGE_STUCK & MESSAGE_CLOSED


def test_the_page_is_what_the_declaration_says() -> None:
    assert (set(TURN_VERBS), set(MESSAGE_VERBS)) == (set(TURN_MOVES), set(MESSAGE_MOVES))
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.lifecycle_page`"
