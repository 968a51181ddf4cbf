"""A claim gives due turns out once, to whoever is still there, and can be repeated under its id."""

from typing import TYPE_CHECKING

import pytest

from app.domain.errors import InvalidContent
from app.domain.model import Claimed
from app.engine import claim, claim_request
from tests.engine.stories import Sink, arrival, draft, wish

if TYPE_CHECKING:
    from tests.conftest import Freeze, Travel
    from tests.database import Admin

REPEATABLE = {"request_id": "r" * 16, "principal": "p", "parameters": "{}"}


def _tokens(claimed: list[Claimed]) -> list[object]:
    return [one.token for one in claimed]


async def test_a_claim_gives_the_input_and_a_lease(sink: Sink) -> None:
    accepted = await sink.accept_one("a", "c", headers={"x": "1"}, metadata='{"m":1}')
    held = await sink.claim_one(lease_seconds=90)
    assert (held.turn, held.attempt, held.conversation) == (accepted.turn, 1, "c")
    assert held.lease_expires_in_seconds == 90.0
    (inbound,) = held.inbound
    assert (inbound.id, inbound.body, inbound.strict_json) == (accepted.inbound, b'"a"', True)
    assert (inbound.headers, inbound.metadata, inbound.source) == ({"x": "1"}, '{"m":1}', "api")
    assert held.history == []
    assert await sink.state(held.turn) == "processing"


async def test_nothing_to_do_is_an_empty_answer(sink: Sink) -> None:
    await sink.accept_one("a", queue="elsewhere")
    assert await sink.claim(5) == []


async def test_the_next_claim_knows_how_the_earlier_attempts_ended(
    sink: Sink, travel: "Travel"
) -> None:
    await sink.hand_back(await sink.hold("a"), reason="restart")
    await sink.hand_back(await sink.claim_one(), failed=True, reason="model down")
    await travel(10)
    await sink.claim_one(lease_seconds=5)
    await travel(6)
    await sink.sweep_turns()
    await travel(100)
    held = await sink.claim_one()
    assert held.attempt == 4
    assert [(one.attempt, one.ended, one.reason) for one in held.history] == [
        (1, "released", "restart"),
        (2, "failed", "model down"),
        (3, "swept", "lease_lapsed"),
    ]


async def test_turns_are_given_by_priority_and_then_by_age(sink: Sink) -> None:
    low, first, second, high = await sink.accept(
        arrival("a", priority=-5), arrival("b"), arrival("c"), arrival("d", priority=7)
    )
    given = [one.turn for one in await sink.claim(3)]
    assert given == [high.turn, first.turn, second.turn]
    assert (await sink.claim_one()).turn == low.turn


async def test_many_of_a_higher_priority_that_back_off_hide_nobody(
    sink: Sink, freeze: "Freeze"
) -> None:
    await freeze()
    for n in range(20):
        await sink.accept(*(arrival(f"k{n}-{m}", priority=n) for m in range(10)))
    for held in await sink.claim(200):
        await sink.hand_back(held, failed=True)
    low = await sink.accept_one("low", priority=-100)
    assert [one.turn for one in await sink.claim(50)] == [low.turn]


async def test_requests_in_one_call_are_served_in_their_order_and_share_no_turn(
    sink: Sink,
) -> None:
    accepted = await sink.accept(*(arrival(f"k{n}") for n in range(7)))
    elsewhere = await sink.accept_one("e", queue="elsewhere")
    answers = await sink.claim_for(
        wish(3, agent="one"),
        wish(5, queue="elsewhere"),
        wish(2, agent="two"),
        wish(5, agent="three"),
    )
    assert [len(answer) for answer in answers] == [3, 1, 2, 2]
    assert answers[1][0].turn == elsewhere.turn
    given = [one.turn for n in (0, 2, 3) for one in answers[n]]
    assert given == [one.turn for one in accepted]
    assert len({token for answer in answers for token in _tokens(answer)}) == 8


async def test_each_request_has_its_own_lease_and_agent(sink: Sink, admin: "Admin") -> None:
    await sink.accept(arrival("a"), arrival("b"))
    (one,), (two,) = await sink.claim_for(
        wish(agent="one", lease_seconds=10), wish(agent="two", lease_seconds=20, code_version="v2")
    )
    assert (one.lease_expires_in_seconds, two.lease_expires_in_seconds) == (10.0, 20.0)
    rows = await admin.fetch("select agent, code_version from sink.attempt order by agent")
    assert [tuple(row) for row in rows] == [("one", None), ("two", "v2")]


async def test_an_answer_ends_before_the_turn_that_would_not_fit(sink: Sink) -> None:
    await sink.accept(*(arrival(f"k{n}", body=b"x" * 100) for n in range(5)))
    assert len(await sink.claim(5, answer_bytes_max=250)) == 2
    assert len(await sink.claim(5)) == 3


async def test_one_turn_is_always_given_and_a_body_without_room_is_left_out(sink: Sink) -> None:
    accepted = await sink.accept_one("a", body=b"x" * 100)
    (held,) = await sink.claim(5, answer_bytes_max=10)
    assert held.turn == accepted.turn
    assert [one.body for one in held.inbound] == [None]


async def test_each_request_of_a_call_has_room_for_its_first_turn(sink: Sink) -> None:
    await sink.accept(*(arrival(f"k{n}", body=b"x" * 100) for n in range(4)))
    answers = await sink.claim_for(*(wish(2, answer_bytes_max=10) for _ in range(2)))
    assert [len(answer) for answer in answers] == [1, 1]


async def test_who_has_left_before_the_call_leases_nothing(sink: Sink) -> None:
    accepted = await sink.accept_one("a")
    assert await sink.claim_for(wish(), still_wanted=lambda _position: False) == [[]]
    assert await sink.state(accepted.turn) == "queued"


async def test_who_leaves_before_the_commit_leases_nothing_and_burns_no_attempt(
    sink: Sink,
) -> None:
    accepted = await sink.accept_one("a")
    asked = []

    def leaves_at_the_second_look(position: int) -> bool:
        asked.append(position)
        return len(asked) < 2

    assert await sink.claim_for(wish(), still_wanted=leaves_at_the_second_look) == [[]]
    assert await sink.story(accepted.turn) == [("accept", None, "queued")]
    assert (await sink.claim_one()).attempt == 1


async def test_who_stays_is_served_when_another_leaves(sink: Sink) -> None:
    await sink.accept(arrival("a"), arrival("b"))
    looks = []

    def the_first_leaves_at_the_second_look(position: int) -> bool:
        looks.append(position)
        return position == 1 or looks.count(0) < 2

    gone, stayed = await sink.claim_for(
        wish(), wish(), still_wanted=the_first_leaves_at_the_second_look
    )
    assert (len(gone), len(stayed)) == (0, 1)
    assert len(await sink.claim(5)) == 1


async def test_a_repeated_request_gets_what_the_first_answer_gave(sink: Sink) -> None:
    await sink.accept(arrival("a"), arrival("b"))
    first = await sink.claim(1, **REPEATABLE)
    again = await sink.claim(1, **REPEATABLE)
    assert _tokens(again) == _tokens(first)
    assert again[0].inbound == first[0].inbound
    assert again[0].attempt == 1
    assert 59 < again[0].lease_expires_in_seconds <= 60


async def test_a_repeat_gives_only_what_is_still_held(sink: Sink) -> None:
    await sink.accept(arrival("a"), arrival("b"))
    first, second = await sink.claim(2, **REPEATABLE)
    await sink.seal_one(first, draft())
    assert _tokens(await sink.claim(2, **REPEATABLE)) == [second.token]
    await sink.hand_back(second)
    assert await sink.claim(2, **REPEATABLE) == []


async def test_an_empty_answer_is_not_remembered(sink: Sink) -> None:
    assert await sink.claim(1, **REPEATABLE) == []
    await sink.accept_one("a")
    assert len(await sink.claim(1, **REPEATABLE)) == 1


async def test_a_request_id_is_over_with_its_lease(sink: Sink, travel: "Travel") -> None:
    await sink.accept(arrival("a"), arrival("b"))
    first = await sink.claim(1, **REPEATABLE)
    await travel(61)
    assert _tokens(await sink.claim(1, **REPEATABLE)) != _tokens(first)


async def test_a_request_id_with_other_parameters_is_refused(sink: Sink) -> None:
    await sink.accept(arrival("a"), arrival("b"))
    await sink.claim(1, **REPEATABLE)
    with pytest.raises(InvalidContent) as refused:
        await sink.claim(1, **REPEATABLE | {"parameters": '{"max_turns":2}'})
    assert [(p.pointer, p.code) for p in refused.value.problems] == [
        ("/request_id", "request_id_reused")
    ]
    assert len(await sink.claim(5)) == 1


@pytest.mark.parametrize(
    "other", [{"principal": "q"}, {"agent": "agent-2"}, {"request_id": "s" * 16}]
)
async def test_a_request_id_is_its_principals_and_agents_own(
    sink: Sink, other: dict[str, str]
) -> None:
    await sink.accept(arrival("a"), arrival("b"))
    first = await sink.claim(1, **REPEATABLE)
    assert _tokens(await sink.claim(1, **REPEATABLE | other)) != _tokens(first)


async def test_the_same_request_twice_in_one_call_is_one_claim(sink: Sink) -> None:
    await sink.accept(*(arrival(f"k{n}") for n in range(4)))
    one, other, stranger = await sink.claim_for(
        wish(1, **REPEATABLE), wish(1, **REPEATABLE), wish(1)
    )
    assert _tokens(one) == _tokens(other)
    assert _tokens(stranger) != _tokens(one)
    assert len(await sink.claim(5)) == 2


async def test_a_twin_in_one_call_gets_nothing_where_the_first_got_nothing(sink: Sink) -> None:
    assert await sink.claim_for(wish(1, **REPEATABLE), wish(1, **REPEATABLE)) == [[], []]


async def test_a_twin_with_other_parameters_is_refused_before_anything_is_leased(
    sink: Sink,
) -> None:
    await sink.accept(*(arrival(f"k{n}") for n in range(3)))
    with pytest.raises(InvalidContent):
        await sink.claim_for(
            wish(1), wish(1, **REPEATABLE), wish(1, **REPEATABLE | {"parameters": "other"})
        )
    assert len(await sink.claim(5)) == 3


async def test_requests_that_are_over_are_forgotten(sink: Sink, travel: "Travel") -> None:
    await sink.accept(arrival("a"), arrival("b"))
    await sink.claim(1, **REPEATABLE)
    await sink.claim(1, **REPEATABLE | {"request_id": "s" * 16, "lease_seconds": 600})
    assert await claim_request.forget_requests(sink.pool, rows_max=10) == 0
    await travel(61)
    assert await claim_request.forget_requests(sink.pool, rows_max=10) == 1
    assert await claim_request.forget_requests(sink.pool, rows_max=10) == 0


async def test_a_repeat_that_holds_nothing_any_more_is_told_apart_from_an_empty_queue(
    sink: Sink,
) -> None:
    await sink.accept(arrival("a"), arrival("b"))
    held = await sink.claim(1, **REPEATABLE)
    await sink.seal_one(held[0])
    answers = await claim.claim(sink.pool, [wish(1, **REPEATABLE), wish()])
    assert answers[0] == []
    assert len(answers[1] or []) == 1
    assert await claim.claim(sink.pool, [wish()]) == [None]


async def test_a_claim_nobody_heard_of_counts_for_nothing(sink: Sink, admin: "Admin") -> None:
    await sink.accept_one("a")
    for _ in range(25):
        held = await sink.claim_one()
        assert await sink.hand_back(held, reason="client_gone", untold=True) == "queued"
    row = await admin.fetchrow("select attempts_used, releases from sink.turn")
    assert row is not None
    assert tuple(row) == (0, 0)
