"""A seal is all of a set or none of it, is answered again with its first answer, and binds what it holds by a hash."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg
import pytest

from app.domain.ids import MESSAGE_PREFIX, format_id
from app.domain.model import AlreadySealed, LeaseLost, Sealed
from app.domain.seal import payload_hash, spell
from app.engine import inspect
from tests.engine.stories import DEAD, DELIVERED, Sink, arrival, draft, only, sealing

if TYPE_CHECKING:
    from tests.conftest import Freeze
    from tests.database import Admin


async def test_a_seal_records_the_set_in_its_order_and_bytes(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    body = bytes(range(256)).decode("latin-1")
    sealed = await sink.seal_one(
        held,
        draft(body, "c", recipient="ada", headers={"x-tag": "1"}),
        draft("2", "c", destination="chat", content_type="application/json"),
        draft("3"),
    )
    assert (sealed.state, sealed.repeated) == ("sealed", False)
    assert [message.state for message in sealed.messages] == ["pending"] * 3
    view = await sink.look(held.turn)
    assert [message.id for message in view.messages] == [message.id for message in sealed.messages]
    assert [message.destination for message in view.messages] == ["crm", "chat", "crm"]
    first = await inspect.find_message(sink.pool, sealed.messages[0].id)
    assert first is not None
    assert (first.body, first.headers) == (body.encode(), {"x-tag": "1"})
    assert (first.message.recipient, first.message.content_type) == ("ada", "text/plain")


async def test_a_message_key_is_its_own_id(sink: Sink) -> None:
    held = await sink.hold("a")
    (message,) = (await sink.seal_one(held, draft())).messages
    assert message.key == format_id(MESSAGE_PREFIX, message.id)
    assert (await sink.take_one()).key == message.key


async def test_an_empty_set_is_replied_at_once(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    behind = await sink.accept_one("b", "c")
    sealed = await sink.seal_one(held)
    assert (sealed.state, sealed.messages) == ("replied", [])
    assert await sink.state(behind.turn) == "queued"


async def test_a_seal_frees_the_lane_before_anything_is_delivered(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    behind = await sink.accept_one("b", "c")
    await sink.seal_one(held, draft())
    assert (await sink.claim_one()).turn == behind.turn


async def test_the_same_seal_again_gives_the_first_answer_with_the_state_of_now(
    sink: Sink,
) -> None:
    held = await sink.hold("a")
    first = await sink.seal_one(held, draft("1"), draft("2", destination="chat"))
    await sink.settle_next(DELIVERED)
    again = await sink.seal_one(held, draft("1"), draft("2", destination="chat"))
    assert again.repeated
    assert again.payload_hash == first.payload_hash
    assert [(m.id, m.key) for m in again.messages] == [(m.id, m.key) for m in first.messages]
    assert [m.state for m in again.messages] == ["delivered", "pending"]
    assert await sink.story(held.turn) == [
        ("accept", None, "queued"),
        ("claim", "queued", "processing"),
        ("seal", "processing", "sealed"),
    ]


async def test_an_empty_seal_again_gives_the_first_answer(sink: Sink) -> None:
    held = await sink.hold("a")
    first = await sink.seal_one(held)
    assert await sink.seal_one(held) == replace(first, repeated=True)


async def test_another_seal_with_the_same_token_learns_the_first_hash(sink: Sink) -> None:
    held = await sink.hold("a")
    first = await sink.seal_one(held, draft("1"))
    assert await sink.seal(sealing(held, draft("2"))) == [AlreadySealed(first.payload_hash)]
    assert await sink.states(held.turn) == ["pending"]


async def test_the_same_seal_twice_in_one_list_is_one_seal(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    first, again, other = await sink.seal(
        sealing(held, draft("1")), sealing(held, draft("1")), sealing(held, draft("2"))
    )
    assert isinstance(first, Sealed)
    assert again == replace(first, repeated=True)
    assert other == AlreadySealed(first.payload_hash)


async def test_a_stale_and_a_live_token_of_one_turn_in_one_list(
    sink: Sink,
) -> None:
    stale = await sink.hold("a", "c")
    await sink.hand_back(stale)
    live = await sink.claim_one()
    refused, sealed = await sink.seal(sealing(stale, draft("1")), sealing(live, draft("2")))
    assert isinstance(refused, LeaseLost)
    assert isinstance(sealed, Sealed)
    assert [one.body for one in await sink.take()] == [b"2"]


async def test_many_turns_are_sealed_at_once(sink: Sink) -> None:
    await sink.accept(*(arrival(f"k{n}", f"c{n}" if n % 2 else None) for n in range(40)))
    held = await sink.claim(50)
    outcomes = await sink.seal(
        *(sealing(one, draft(str(n), one.conversation)) for n, one in enumerate(held))
    )
    for n, outcome in enumerate(outcomes):
        assert isinstance(outcome, Sealed)
        detail = await inspect.find_message(sink.pool, outcome.messages[0].id)
        assert detail is not None
        assert (detail.message.turn, detail.body) == (held[n].turn, str(n).encode())


async def test_the_payload_hash_covers_turn_attempt_and_every_message(sink: Sink) -> None:
    held = await sink.hold("a")
    drafts = [draft("1"), draft("2")]
    sealed = await sink.seal_one(held, *drafts)
    expected = payload_hash(
        turn=held.turn, attempt=1, order=None, messages=[one.hash for one in drafts]
    )
    assert sealed.payload_hash == spell(expected)
    assert (await sink.look(held.turn)).payload_hash == expected


@pytest.mark.parametrize(
    "change",
    [
        {"destination": "chat"},
        {"recipient": ""},
        {"recipient": "ada"},
        {"conversation": "c"},
        {"conversation": ""},
        {"headers": {"x": "1"}},
        {"headers": {"x": ""}},
        {"content_type": "text/html"},
        {"body": b"other"},
        {"body": b""},
        {"delay_seconds": 1.0},
    ],
    ids=str,
)
def test_a_message_hash_changes_with_every_field(change: dict[str, Any]) -> None:
    assert draft(**change).hash != draft().hash


def test_a_message_hash_does_not_depend_on_the_order_of_headers() -> None:
    assert draft(headers={"a": "1", "b": "2"}).hash == draft(headers={"b": "2", "a": "1"}).hash


def test_no_two_splits_of_the_same_bytes_have_one_hash() -> None:
    assert draft(headers={"ab": "c"}).hash != draft(headers={"a": "bc"}).hash
    assert draft(headers={"a": "1", "b": "2"}).hash != draft(headers={"a": "1b2"}).hash
    assert (
        draft(recipient="x", content_type="y").hash != draft(recipient="xy", content_type="").hash
    )


def test_a_payload_hash_changes_with_every_part() -> None:
    turn, parts = uuid4(), [b"1" * 32, b"2" * 32]
    hashes = {
        payload_hash(turn=turn, attempt=1, order=None, messages=parts),
        payload_hash(turn=uuid4(), attempt=1, order=None, messages=parts),
        payload_hash(turn=turn, attempt=2, order=None, messages=parts),
        payload_hash(turn=turn, attempt=1, order="strict", messages=parts),
        payload_hash(turn=turn, attempt=1, order=None, messages=parts[::-1]),
        payload_hash(turn=turn, attempt=1, order=None, messages=parts[:1]),
        payload_hash(turn=turn, attempt=1, order=None, messages=[]),
    }
    assert len(hashes) == 7


async def test_a_set_that_cannot_be_written_leaves_the_turn_as_it_was(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    await sink.accept_one("b", "c")
    broken = replace(draft("2", "c"), hash=b"too short")
    with pytest.raises(asyncpg.CheckViolationError):
        await sink.seal(sealing(held, draft("1", "c"), broken))
    assert await sink.state(held.turn) == "processing"
    assert await sink.take() == []
    assert (await sink.seal_one(held, draft("1", "c"))).state == "sealed"


async def test_a_delay_counts_from_the_seal_for_the_first_of_its_lane(
    sink: Sink, freeze: "Freeze", admin: "Admin"
) -> None:
    held = await sink.hold("a")
    await freeze()
    await sink.seal_one(held, draft("1", delay_seconds=3.0), draft("2", delay_seconds=2.0))
    first, second = (await sink.look(held.turn)).messages
    now = await admin.fetchval("select sink.now()")
    assert (first.due_at - now).total_seconds() == 3.0
    assert (first.blocked_by, second.blocked_by) == (None, first.id)


async def test_a_new_set_goes_behind_what_is_open_in_its_lane_and_not_behind_what_is_stuck(
    sink: Sink,
) -> None:
    _, (one,) = await sink.sealed("a", draft("1", "c"), conversation="c")
    turn, (two,) = await sink.sealed("b", draft("2", "c"), conversation="c")
    assert (await sink.look(turn)).messages[0].blocked_by == one
    assert await sink.settle_next(DEAD) == one
    turn, _ = await sink.sealed("d", draft("3", "c"), conversation="c")
    assert (await sink.look(turn)).messages[0].blocked_by == two


async def test_a_seal_is_refused_for_a_turn_that_nobody_claimed(sink: Sink) -> None:
    held = await sink.hold("a")
    other = await sink.accept_one("b")
    outcome = only(await sink.seal(sealing(replace(held, turn=other.turn), draft())))
    assert outcome == LeaseLost("swept", "queued")
