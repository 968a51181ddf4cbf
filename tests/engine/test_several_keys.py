"""What has several keys is one inbound, whichever of them it comes under, and those of one call come all or none."""

import asyncio
import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from app.domain.model import Accepted, Arrival
from app.engine import accept as accepting
from app.engine import inspect
from app.engine.accept import recall
from tests.engine.stories import KEY_SECONDS, Sink, arrival, short

if TYPE_CHECKING:
    from tests.database import Admin

joins = pytest.mark.parametrize("made", [arrival, short], ids=["alone", "joining"])


async def keys_of(admin: "Admin") -> set[str]:
    return {row["key"] for row in await admin.fetch("select key from sink.idempotency_key")}


async def together(sink: Sink, *arrivals: Arrival) -> list[Accepted]:
    return await accepting.accept(
        sink.pool, arrivals, ids=sink.ids, key_seconds=KEY_SECONDS, together=True
    )


@joins
async def test_a_hit_on_any_key_is_a_duplicate_and_leaves_no_other_key_behind(
    sink: Sink, admin: "Admin", made: Any
) -> None:
    (first,) = await sink.accept(made("e1", "c", also=("said", "hash")))
    for key, also in (
        ("e1", ()),
        ("e2", ("said",)),
        ("e3", ("hash", "x")),
        ("said", ()),
        ("e4", ("y", "said")),
    ):
        (again,) = await sink.accept(made(key, "c", also=also, body=b"other"))
        assert (again.inbound, again.turn, again.duplicate) == (first.inbound, first.turn, True)
        # Its own key alone stands for its body.
        assert again.same_body is (key not in ("e1", "said"))
    assert await keys_of(admin) == {"e1", "said", "hash"}
    (new,) = await sink.accept(made("e2", "c", also=("x",)))
    assert not new.duplicate


@joins
async def test_of_two_in_one_call_that_share_a_key_the_first_is_kept(
    sink: Sink, admin: "Admin", made: Any
) -> None:
    first, second, third = await sink.accept(
        made("e2", "c", also=("said",)),
        made("e1", "c", also=("said",)),
        made("e3", "c", also=("other", "other")),
    )
    assert (first.duplicate, second.duplicate, third.duplicate) == (False, True, False)
    assert second.inbound == first.inbound
    assert await keys_of(admin) == {"e2", "said", "e3", "other"}


@joins
async def test_one_that_lost_a_key_to_another_duplicate_is_new_after_all(
    sink: Sink, admin: "Admin", made: Any
) -> None:
    await sink.accept(made("known", "c"))
    # The first is known by its second key, so that what it has of `shared` is nothing.
    first, second = await sink.accept(
        made("shared", "c", also=("known",)), made("e2", "c", also=("shared",))
    )
    assert (first.duplicate, second.duplicate) == (True, False)
    assert await keys_of(admin) == {"known", "e2", "shared"}
    found = await inspect.find_inbound(sink.pool, second.inbound)
    assert found is not None


@joins
async def test_twins_with_overlapping_keys_are_one_whoever_comes_first(
    sink: Sink, made: Any
) -> None:
    chance = random.Random(7)
    for n in range(15):
        names = [f"{n}-a", f"{n}-b", f"{n}-c"]

        async def one(names: list[str] = names, lane: str = f"c{n % 3}") -> list[Accepted]:
            key, *also = chance.sample(names, 3)
            return await sink.accept(made(key, lane, also=tuple(also), body=b"1"))

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one()) for _ in range(6)]
        answers = [task.result()[0] for task in tasks]
        assert len({answer.inbound for answer in answers}) == 1
        assert [answer.duplicate for answer in answers].count(False) == 1


async def test_those_of_one_call_are_one_transaction_whether_they_may_join_or_not(
    sink: Sink, admin: "Admin"
) -> None:
    arrivals = [short("a", "c"), short("b", None), short("c", "c"), short("d", "d", also=("e",))]
    await admin.execute(
        """
        create function sink.refuse() returns trigger language plpgsql as $$
        begin
            if new.key = 'e' then raise exception 'no'; end if;
            return new;
        end $$;
        create trigger refuse before insert on sink.idempotency_key for each row execute function sink.refuse();
        """
    )
    with pytest.raises(asyncpg.RaiseError):
        await together(sink, *arrivals)
    assert await keys_of(admin) == set()
    await admin.execute("drop trigger refuse on sink.idempotency_key")
    accepted = await together(sink, *arrivals)
    assert [one.duplicate for one in accepted] == [False] * 4
    # Those of one conversation share a turn, in their order.
    assert accepted[0].turn == accepted[2].turn
    assert len({one.turn for one in accepted}) == 3
    again = await together(sink, *reversed(arrivals))
    assert [one.inbound for one in reversed(again)] == [one.inbound for one in accepted]
    xacts = await admin.fetch("select distinct xmin::text from sink.inbound")
    assert len(xacts) == 1


async def test_an_item_is_recalled_by_any_of_its_keys(sink: Sink) -> None:
    first = await sink.accept_one("e1", also=("said",))
    found = await recall(
        sink.pool, [arrival("e2", also=("said",)), arrival("e3"), arrival("e1", body=b"2")]
    )
    assert [one and one.inbound for one in found] == [first.inbound, None, first.inbound]
    assert [one and one.same_body for one in found] == [True, None, False]


@joins
async def test_what_a_source_read_and_may_answer_with_is_kept_beside_the_body(
    sink: Sink, admin: "Admin", made: Any
) -> None:
    ends = (await admin.fetchval("select sink.now()")) + timedelta(minutes=30)
    view = '{"text":"\\u0000"}'
    (accepted,) = await sink.accept(
        made("e1", "c", view=view, reply=b'{"u":1}', reply_expires_at=ends)
    )
    row = await admin.fetchrow("select * from sink.inbound where id = $1", accepted.inbound)
    assert row is not None
    assert (row["view"], row["reply"], row["reply_expires_at"]) == (view, b'{"u":1}', ends)
