"""Notices are taken once, by one sweeper, for queues of its own, and none keeps another from being told."""

from typing import TYPE_CHECKING

import pytest

from app.domain.notice import NoticeRoute
from app.engine.chores import find_chores
from tests.engine.stories import DEAD, NOTICE_ROUTES, ONCALL, QUEUE, Sink, arrival, draft
from tests.engine.suspense import Suspend
from tests.engine.told import TOLD, escalations, failed, notices

if TYPE_CHECKING:
    from tests.database import Admin


async def test_a_queue_that_names_nobody_drops_and_tells_so(sink: Sink, admin: "Admin") -> None:
    turn = await failed(sink)
    dropped = await sink.escalate(routes={QUEUE: NoticeRoute()})
    assert dropped == {(QUEUE, "escalation", "nobody"): 1}
    assert await notices(admin) == []
    assert await escalations(admin, turn) == []


async def test_what_belongs_to_a_queue_that_is_not_configured_waits_and_holds_up_no_other(
    sink: Sink, admin: "Admin"
) -> None:
    await sink.accept(*(arrival(f"x{n}", queue="elsewhere") for n in range(5)))
    for held in await sink.claim(5, queue="elsewhere"):
        await sink.hand_back(held, final=True)
    turn = await failed(sink)
    assert "notices" in (await find_chores(sink.pool, [QUEUE])).due
    assert await sink.escalate(notices_max=2) == TOLD
    assert len(await escalations(admin, turn)) == 1
    assert {row["queue"] for row in await notices(admin)} == {"elsewhere"}
    assert "notices" not in (await find_chores(sink.pool, [QUEUE])).due
    routes = {**NOTICE_ROUTES, "elsewhere": NoticeRoute(escalate_to=ONCALL)}
    assert await sink.escalate(routes=routes) == {("elsewhere", "escalation", "told"): 5}


async def test_a_long_list_of_one_queue_keeps_no_other_waiting(sink: Sink, admin: "Admin") -> None:
    await sink.accept(*(arrival(f"x{n}", queue="busy") for n in range(6)))
    for held in await sink.claim(6, queue="busy"):
        await sink.hand_back(held, final=True)
    turn = await failed(sink)
    routes = {**NOTICE_ROUTES, "busy": NoticeRoute(escalate_to=ONCALL)}
    await sink.escalate(2, routes=routes)
    assert len(await escalations(admin, turn)) == 1


async def test_two_that_sweep_make_one(sink: Sink, admin: "Admin", suspend: Suspend) -> None:
    turn, _ = await sink.sealed("a", draft("1", "c"), draft("2", "d"))
    await sink.settle(*((one, DEAD) for one in await sink.take()))
    async with suspend() as replica:
        assert await replica.sink.escalate() == TOLD
        # Whoever comes meanwhile finds it taken, and waits for nobody.
        assert await sink.escalate() == {}
    assert await sink.escalate() == {}
    assert len(await escalations(admin, turn)) == 1


async def test_who_is_a_moment_behind_takes_nothing_of_what_another_has_begun(
    sink: Sink, admin: "Admin"
) -> None:
    turn, _ = await sink.sealed("a", draft("1", "c"), draft("2", "d"))
    await sink.settle(*((one, DEAD) for one in await sink.take()))
    async with admin.transaction():
        await admin.execute("select from sink.notice order by id limit 1 for update")
        assert await sink.escalate() == {}
    assert await sink.escalate() == TOLD
    assert len(await escalations(admin, turn)) == 1


async def test_a_sweeper_that_dies_before_its_commit_leaves_the_notice(
    sink: Sink, admin: "Admin", suspend: Suspend
) -> None:
    turn = await failed(sink)
    async with suspend() as replica:
        await replica.sink.escalate()
        replica.roll_back()
    assert await escalations(admin, turn) == []
    assert len(await notices(admin)) == 1
    assert await sink.escalate() == TOLD


async def test_one_that_cannot_be_told_keeps_no_other_from_being_told(
    sink: Sink, admin: "Admin"
) -> None:
    broken, turn = await failed(sink, "a"), await failed(sink, "b")
    await admin.execute(
        """
        create function sink.refuse() returns trigger language plpgsql as $$
        begin raise exception 'refused'; end $$
        """
    )
    await admin.execute(
        f"create trigger refuse before insert on sink.turn for each row "
        f"when (new.about = '{broken}') execute function sink.refuse()"
    )
    with pytest.raises(Exception, match="refused"):
        await sink.escalate()
    assert len(await escalations(admin, turn)) == 1
    assert [row["turn"] for row in await notices(admin)] == [broken]
    await admin.execute("drop trigger refuse on sink.turn")
    assert await sink.escalate() == TOLD


async def test_what_is_told_of_a_turn_that_is_gone_is_dropped(sink: Sink, admin: "Admin") -> None:
    await admin.execute(
        "insert into sink.notice (turn, queue, kind, reason, noted_at) "
        "values (gen_random_uuid(), 'default', 'escalation', 'dead', sink.now())"
    )
    assert await sink.escalate() == {(QUEUE, "escalation", "gone"): 1}
