"""How often an agent's verb goes to the database does not depend on how much it is given."""

from functools import partial

from app.domain.model import Claimed
from app.engine.gather import LOCK_WAIT_MS
from tests.engine.round_trips import MANY, Counted, hold_many
from tests.engine.stories import Sink, arrival, draft, returning, sealing, short
from tests.engine.waiting_stories import parking, telling


@MANY
async def test_accept_is_one_statement(one: Sink, counted: Counted, many: int) -> None:
    arrivals = [arrival(f"k{n}", f"c{n}") for n in range(many)]
    assert len(await counted(lambda: one.accept(*arrivals))) == 1


@MANY
async def test_accept_with_others_is_one_statement_and_no_transaction_around_it(
    one: Sink, counted: Counted, many: int
) -> None:
    arrivals = [arrival(f"k{n}", f"c{n}") for n in range(many)]
    sent = await counted(lambda: one.accept(*arrivals, lock_wait_ms=LOCK_WAIT_MS))
    assert sent == ["with"]


@MANY
async def test_what_has_several_statements_says_with_its_beginning_how_long_it_waits(
    one: Sink, counted: Counted, many: int
) -> None:
    said = [short(f"k{n}", f"c{n}") for n in range(many)]
    sent = await counted(lambda: one.accept(*said, lock_wait_ms=LOCK_WAIT_MS))
    assert sent == ["begin", "with", "insert", "with", "with", "with", "commit"]


@MANY
async def test_accept_of_what_is_known_is_two(one: Sink, counted: Counted, many: int) -> None:
    arrivals = [arrival(f"k{n}", f"c{n}") for n in range(many)]
    await one.accept(*arrivals)
    assert len(await counted(lambda: one.accept(*arrivals))) == 2


@MANY
async def test_claim_is_one_and_another_for_what_ran_before(
    one: Sink, counted: Counted, many: int
) -> None:
    await one.accept(*(arrival(f"k{n}") for n in range(many)))
    first: list[Claimed] = []

    async def claim() -> None:
        first.extend(await one.claim(many))

    assert await counted(claim) == ["begin", "with", "commit"]
    assert len(first) == many
    await one.release(*(returning(held) for held in first))
    again = await counted(lambda: one.claim(many))
    assert again == ["begin", "with", "with", "commit"]


@MANY
async def test_a_park_is_two_and_one_more_where_its_signal_was_there(
    one: Sink, counted: Counted, many: int
) -> None:
    held = await hold_many(one, many)
    sent = await counted(lambda: one.park(*(parking(h) for h in held)))
    assert sent == ["begin", "with", "with", "commit"]
    await one.signal(*(telling(h.turn) for h in held))
    again = await one.claim(many)
    sent = await counted(lambda: one.park(*(parking(h) for h in again)))
    assert sent == ["begin", "with", "with", "with", "commit"]


@MANY
async def test_a_signal_is_four_and_one_more_where_it_is_waited_for(
    one: Sink, counted: Counted, many: int
) -> None:
    held = await hold_many(one, many)
    sent = await counted(lambda: one.signal(*(telling(h.turn, "early") for h in held)))
    assert sent == ["begin", *["select"] * 3, "insert", "commit"]
    await one.park(*(parking(h) for h in held))
    sent = await counted(lambda: one.signal(*(telling(h.turn) for h in held)))
    assert sent == ["begin", *["select"] * 3, "insert", "with", "commit"]
    # What a signal says comes with the history.
    sent = await counted(lambda: one.claim(many))
    assert sent == ["begin", "with", "with", "commit"]


async def test_a_claim_that_finds_nothing_is_one(one: Sink, counted: Counted) -> None:
    assert await counted(lambda: one.claim(50)) == ["begin", "with", "commit"]


@MANY
async def test_renew_is_one_statement(one: Sink, counted: Counted, many: int) -> None:
    held = await hold_many(one, many)
    assert len(await counted(lambda: one.renew(*held))) == 1


@MANY
async def test_release_is_three(one: Sink, counted: Counted, many: int) -> None:
    held = await hold_many(one, many)
    sent = await counted(lambda: one.release(*(returning(h) for h in held)))
    assert sent == ["begin", "select", "select", "with", "commit"]


@MANY
async def test_a_final_failure_is_four(one: Sink, counted: Counted, many: int) -> None:
    held = await hold_many(one, many)
    sent = await counted(lambda: one.release(*(returning(h, final=True) for h in held)))
    assert sent == ["begin", "select", "select", "with", "with", "commit"]


@MANY
async def test_seal_is_two(one: Sink, counted: Counted, many: int) -> None:
    held = await hold_many(one, many)
    sets = [sealing(h, draft("1", h.conversation), draft("2", h.conversation)) for h in held]
    sent = await counted(lambda: one.seal(*sets))
    assert sent == ["begin", "with", "with", "commit"]


@MANY
async def test_joining_is_five_and_as_much_as_what_begins_a_turn(
    one: Sink, counted: Counted, many: int
) -> None:
    for name in ("begins", "joins"):
        said = [short(f"{name}-{n}", f"c{n}") for n in range(many)]
        sent = await counted(partial(one.accept, *said))
        assert sent == ["begin", "with", "insert", "with", "with", "with", "commit"]
