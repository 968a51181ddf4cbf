"""Delivery as a whole: taken, sent over a real socket, settled."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
from aiohttp import web

from app.core import Core
from app.engine.wake import OUTBOX, turn_topic
from app.telemetry.logs import JsonLines, PlainLines
from app.workers.deliverer import Deliverer
from tests.database import Clock, close_database, open_database
from tests.engine.stories import Sink, draft
from tests.receiver import Receiver, Request, fine, open_receiver, status
from tests.workers.conftest import OpenCore, destination


@asynccontextmanager
async def delivering(core: Core) -> AsyncIterator[Deliverer]:
    """A deliverer that settles by itself and takes when it is told to."""
    async with asyncio.TaskGroup() as group:
        deliverer = Deliverer(core, group)

        async def settle() -> None:
            while True:
                await deliverer.settle_ended()

        settling = group.create_task(settle())
        yield deliverer
        await deliverer.drain(seconds=5)
        settling.cancel()


async def until_state(sink: Sink, deliverer: Deliverer, turn: UUID, state: str) -> None:
    """Take again until the turn is in a state."""
    async with asyncio.timeout(10):
        while await sink.state(turn) != state:
            await deliverer.tick()
            await asyncio.sleep(0.005)


async def test_a_set_arrives_once_each_in_order_and_its_turn_is_replied(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    turn, messages = await sink.sealed(
        "a", *[draft(f"{n}", "c") for n in range(5)], conversation="c"
    )
    async with opening({"crm": destination(receiver)}) as core, delivering(core) as deliverer:
        await until_state(sink, deliverer, turn, "replied")
    assert receiver.texts == ["0", "1", "2", "3", "4"]
    assert len({request.key for request in receiver.got}) == len(messages)


async def test_every_attempt_has_the_same_key_and_the_same_bytes(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    turn, _ = await sink.sealed("a", draft("hello"))
    receiver.answer = status(503)
    async with opening({"crm": destination(receiver)}) as core, delivering(core) as deliverer:
        async with asyncio.timeout(10):
            while len(receiver.got) < 3:
                await deliverer.tick()
                await asyncio.sleep(0.005)
        receiver.answer = fine
        await until_state(sink, deliverer, turn, "replied")
    assert len({(request.key, request.body) for request in receiver.got}) == 1
    (message,) = (await sink.look(turn)).messages
    assert message.attempts == len(receiver.got) >= 4


async def test_a_rejection_is_dead_at_once_and_the_turn_undelivered(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    turn, _ = await sink.sealed("a", draft("hello"))
    receiver.answer = status(400)
    async with opening({"crm": destination(receiver)}) as core, delivering(core) as deliverer:
        await until_state(sink, deliverer, turn, "undelivered")
    assert len(receiver.got) == 1
    (message,) = (await sink.look(turn)).messages
    assert (message.state, message.reason) == ("dead", "http_400")


async def test_a_redirect_is_not_followed(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    turn, _ = await sink.sealed("a", draft("hello"))
    async with open_receiver() as elsewhere:
        receiver.answer = status(307, Location=elsewhere.url)
        async with opening({"crm": destination(receiver)}) as core, delivering(core) as deliverer:
            await until_state(sink, deliverer, turn, "undelivered")
        assert elsewhere.got == []


async def test_what_may_have_arrived_ends_unknown_and_never_dead(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    turn, _ = await sink.sealed("a", draft("hello"))
    receiver.answer = status(500)
    crm = destination(receiver, attempts_max=2)
    async with opening({"crm": crm}) as core, delivering(core) as deliverer:
        await until_state(sink, deliverer, turn, "undelivered")
    assert len(receiver.got) == 2
    assert await sink.states(turn) == ["unknown"]


async def test_nothing_is_sent_earlier_than_the_destination_asked(
    sink: Sink, opening: OpenCore, receiver: Receiver, clock: Clock
) -> None:
    turn, _ = await sink.sealed("a", draft("hello"))
    receiver.answer = status(429, Retry_After="120")
    async with opening({"crm": destination(receiver)}) as core, delivering(core) as deliverer:
        await deliverer.tick()
        await receiver.wait_for(1)
        await deliverer.drain(seconds=5)
        await clock.travel(118)
        await deliverer.tick()
        await deliverer.drain(seconds=5)
        assert len(receiver.got) == 1
        receiver.answer = fine
        await clock.travel(30)
        await until_state(sink, deliverer, turn, "replied")
    assert len(receiver.got) == 2


async def test_a_destination_that_hangs_takes_no_slot_of_another(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    release = asyncio.Event()

    async def hang(_request: Request) -> web.StreamResponse:
        await release.wait()
        return web.Response(status=204)

    async with open_receiver(hang) as slow:
        slow_turns = [
            (await sink.sealed(f"s{n}", draft("slow", destination="slow")))[0] for n in range(8)
        ]
        quick_turns = [(await sink.sealed(f"q{n}", draft("quick")))[0] for n in range(20)]
        destinations = {
            "crm": destination(receiver),
            "slow": destination(slow, concurrency_max=4, timeout_seconds=30.0),
        }
        async with opening(destinations) as core, delivering(core) as deliverer:
            for turn in quick_turns:
                await until_state(sink, deliverer, turn, "replied")
            assert len(slow.got) == 4
            assert {await sink.state(turn) for turn in slow_turns} == {"sealed"}
            release.set()
            for turn in slow_turns:
                await until_state(sink, deliverer, turn, "replied")


async def test_a_confirmation_is_kept_while_the_database_is_away_and_nothing_is_sent_twice(
    sink: Sink,
    opening: OpenCore,
    receiver: Receiver,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    turn, _ = await sink.sealed("a", draft("hello"))
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(_request: Request) -> web.StreamResponse:
        arrived.set()
        await go_on.wait()
        return web.Response(status=204)

    receiver.answer = slowly
    async with (
        opening({"crm": destination(receiver, timeout_seconds=20.0)}) as core,
        delivering(core) as deliverer,
    ):
        await deliverer.tick()
        await arrived.wait()
        await close_database(clock.admin)
        go_on.set()
        async with asyncio.timeout(10):
            while "could not be written" not in caplog.text:
                await asyncio.sleep(0.01)
        assert deliverer.unsettled == 1
        await open_database(clock.admin)
        await until_state(sink, deliverer, turn, "replied")
    assert len(receiver.got) == 1


async def test_a_delivery_whose_lease_was_lost_is_a_fact_all_the_same(
    sink: Sink, opening: OpenCore, receiver: Receiver, clock: Clock
) -> None:
    turn, _ = await sink.sealed("a", draft("hello"))
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(_request: Request) -> web.StreamResponse:
        arrived.set()
        await go_on.wait()
        return web.Response(status=204)

    receiver.answer = slowly
    async with opening({"crm": destination(receiver)}) as core, delivering(core) as deliverer:
        await deliverer.tick()
        await arrived.wait()
        await clock.travel(60)
        assert await sink.sweep_messages() == 1
        assert await sink.states(turn) == ["pending"]
        go_on.set()
        await deliverer.drain(seconds=5)
    assert await sink.state(turn) == "replied"
    assert len(receiver.got) == 1


async def test_what_a_drain_has_not_started_is_given_back_uncounted(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    turn, _ = await sink.sealed("a", draft("hello"))
    async with opening({"crm": destination(receiver)}) as core, delivering(core) as deliverer:
        core.draining.start()
        await deliverer.tick()
    assert receiver.got == []
    assert await sink.states(turn) == ["pending"]
    assert (await sink.take_one()).attempts_used == 1


async def test_what_outlives_the_grace_is_cut_and_settled_as_unknown(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    turn, _ = await sink.sealed("a", draft("hello"))
    forever = asyncio.Event()

    async def hang(_request: Request) -> web.StreamResponse:
        await forever.wait()
        return web.Response(status=204)

    receiver.answer = hang
    crm = destination(receiver, timeout_seconds=30.0)
    async with opening({"crm": crm}) as core, delivering(core) as deliverer:
        await deliverer.tick()
        await receiver.wait_for(1)
        await deliverer.drain(seconds=0.05)
    assert await sink.states(turn) == ["pending"]
    assert (await sink.take_one()).may_have_arrived


async def test_a_message_for_a_destination_that_is_not_configured_waits(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    turn, _ = await sink.sealed("a", draft("hello", destination="gone"))
    async with opening({"crm": destination(receiver)}) as core, delivering(core) as deliverer:
        await deliverer.tick()
    assert await sink.states(turn) == ["pending"]
    async with opening({"gone": destination(receiver)}) as core, delivering(core) as deliverer:
        await until_state(sink, deliverer, turn, "replied")


async def test_a_turn_that_somebody_holds_keeps_no_other_from_being_settled(
    sink: Sink, opening: OpenCore, receiver: Receiver, clock: Clock
) -> None:
    turns = [(await sink.sealed(f"{n}", draft(f"{n}")))[0] for n in range(3)]
    database = {"lock_timeout_ms": 50}
    async with (
        opening({"crm": destination(receiver)}, database=database) as core,
        delivering(core) as deliverer,
    ):
        async with clock.admin.transaction():
            await clock.admin.execute("select from sink.turn where id = $1 for update", turns[1])
            await deliverer.tick()
            for free in (turns[0], turns[2]):
                await until_state(sink, deliverer, free, "replied")
            assert await sink.state(turns[1]) == "sealed"
            assert deliverer.unsettled == 1
        await until_state(sink, deliverer, turns[1], "replied")
    assert len(receiver.got) == 3


async def test_a_settled_attempt_frees_a_slot_of_this_process_and_of_no_other(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    turn, _ = await sink.sealed("a", draft("hello"))
    async with opening({"crm": destination(receiver)}) as core, delivering(core) as deliverer:
        with core.wakes.waiting(OUTBOX) as woken:
            await until_state(sink, deliverer, turn, "replied")
            async with asyncio.timeout(5):
                await woken.wait()
        told = core.wakes._untold  # noqa: SLF001 - what the other processes will be told
        assert told == {turn_topic(turn)}


async def test_attempts_in_vain_are_told_at_each_power_of_two_until_one_delivers(
    sink: Sink, opening: OpenCore, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    async def down_five_times(_request: Request) -> web.StreamResponse:
        if len(receiver.got) <= 5:
            return web.Response(status=503, text="secret words")
        return web.Response(status=204)

    receiver.answer = down_five_times
    turn, _ = await sink.sealed("a", draft("hello"))
    async with opening({"crm": destination(receiver)}) as core, delivering(core) as deliverer:
        await until_state(sink, deliverer, turn, "replied")
    told = [record for record in caplog.records if record.getMessage().startswith("not delivered")]
    assert [vars(record)["attempt"] for record in told] == [1, 2, 4]
    assert {vars(record)["outcome"] for record in told} == {"retry_later"}
    assert {vars(record)["reason"] for record in told} == {"http_503"}
    line = PlainLines().format(told[0])
    assert "destination crm, message_id msg_" in line
    assert "secret" not in line + JsonLines().format(told[0])
    assert receiver.url not in line + JsonLines().format(told[0])


async def test_a_secret_that_is_not_there_is_told_when_the_core_opens(
    opening: OpenCore, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    async with opening({"crm": destination(receiver, secrets=["env:NO_SUCH_SECRET"])}):
        pass
    (told,) = [
        record for record in caplog.records if "a secret is not there" in record.getMessage()
    ]
    assert PlainLines().format(told).endswith("(destination crm, pointer env:NO_SUCH_SECRET)")


async def test_a_drain_ends_although_somebody_holds_what_is_to_be_settled(
    sink: Sink, opening: OpenCore, receiver: Receiver, clock: Clock
) -> None:
    turn, _ = await sink.sealed("a", draft("hello"))
    opened = opening({"crm": destination(receiver)}, database={"lock_timeout_ms": 20})
    async with opened as core, clock.admin.transaction(), asyncio.timeout(15):
        await clock.admin.execute("select from sink.turn where id = $1 for update", turn)
        async with delivering(core) as deliverer:
            await deliverer.tick()
            await receiver.wait_for(1)
            with pytest.raises(TimeoutError):
                await deliverer.drain(seconds=0.05)
    assert await sink.states(turn) == ["sending"]
