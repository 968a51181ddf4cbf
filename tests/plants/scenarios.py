"""Short runs, each through one narrow place. Without a bug every one of them keeps every promise."""

import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import asyncpg

from app.domain.ids import IdFactory
from app.engine.pause import Kind
from tests.database import wait_for_lock
from tests.engine.stories import CRM, draft
from tests.plants.notes import with_one_breath
from tests.plants.stage import MAIL, Stage

Scenario = Callable[[Stage], Awaitable[None]]

# JSON as no library would spell it.
ODD = b'{ "b" : 1.50,\n"a":"caf\\u00e9", "a": 2 }'


async def twins(stage: Stage) -> None:
    """A provider sends the same twice at once, then again, then another body under the key."""
    await stage.race(
        lambda sink: stage.post("twin", "c", body=ODD, sink=sink),
        lambda sink: stage.post("twin", "c", body=ODD, sink=sink),
    )
    await stage.post("twin", "c", body=ODD)
    await stage.post("twin", "c", body=b'"another"')
    await stage.rest()


async def crash_behind_an_accept(stage: Stage) -> None:
    """The service is lost as soon as it has answered; the provider tells again what was not acknowledged."""
    accepted = await stage.post("a")
    await stage.crash()
    if accepted is None:
        await stage.post("a")
    await stage.rest()


async def zombie(stage: Stage) -> None:
    """An agent that was swept comes back while another one works, renews, and seals."""
    await stage.post("a", "c")
    frozen = await stage.claim_one("frozen")
    await stage.travel(61)
    await stage.sweep()
    await stage.travel(2)
    held = await stage.claim_one("other")
    await stage.renew(frozen)
    await stage.seal(frozen, "from the grave")
    await stage.seal(held, "alive", "still")
    await stage.seal(held, "alive", "still")
    await stage.rest()


async def renewal_against_sweep(stage: Stage) -> None:
    """An agent renews a lapsed lease at the moment when a sweeper looks at it."""
    await stage.post("a", "c")
    held = await stage.claim_one()
    await stage.travel(61)
    await stage.race(lambda sink: stage.renew(held, sink=sink), lambda sink: stage.sweep(sink=sink))
    await stage.rest()


async def behind_the_times(stage: Stage) -> None:
    """The machines of the service are an hour ahead of the database."""
    await stage.travel(-3600)
    await stage.post("a")
    held = await stage.claim_one()
    await stage.sweep()
    await stage.seal(held, "in time")
    await stage.rest()


async def crash_loop(stage: Stage) -> None:
    """Agents hand a turn back, and then die over it again and again, until nobody may have it."""
    await stage.post("a", "c")
    await stage.hand_back(await stage.claim_one())
    await stage.hand_back(await stage.claim_one(), failed=True)
    for _ in range(6):
        await stage.travel(61)
        await stage.sweep()
        await stage.claim()
    await stage.rest()


async def seal_without_a_database(stage: Stage) -> None:
    """The database goes away during a seal, at the first moment when it is not in a transaction."""
    await stage.post("a")
    held = await stage.claim_one()
    await stage.seal(held, "1", "2", "3", sink=with_one_breath(stage.sink))
    await stage.seal(held, "1", "2", "3")
    await stage.rest()


async def seal_in_a_deadlock(stage: Stage) -> None:
    """A seal is the victim of a deadlock with somebody who came over its path; the next of its conversation is not."""
    await stage.admin.execute("do $$ begin execute format("
        "'alter database %I set deadlock_timeout = ''200ms''', current_database()); end $$")  # fmt: skip
    await stage.crash()
    for key in ("a", "b"):
        await stage.post(key, "c")
    held = await stage.claim_one()
    other = await asyncpg.connect(
        stage.url, server_settings={"deadlock_timeout": "10s", "lock_timeout": "10s"}
    )
    try:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("lock table sink.outbox in share row exclusive mode")

        async def cross() -> None:
            await wait_for_lock(stage.admin)
            await other.execute("update sink.turn set priority = priority")
            await transaction.rollback()

        await stage.beside(stage.seal(held, "1", "2"), cross())
    finally:
        await other.close()
    await stage.seal(await stage.claim_one(), "3", "4")
    await stage.rest()


async def one_lane(stage: Stage) -> None:
    """Three inbound of one conversation, one after another."""
    for key in ("a", "b", "c"):
        await stage.post(key, "c")
    await stage.post("d")
    await stage.rest()


async def stopped_and_let_go(stage: Stage) -> None:
    """A queue, a destination and everything are paused while there is something to do, and then let go."""
    await stage.answer("a", "1", lane="c")
    stopped: list[tuple[Kind, str]] = [("destination", CRM), ("queue", "default"), ("all", "")]
    for kind, name in stopped:
        await stage.pause(kind, name)
        await stage.travel(1)
        await stage.post(f"during {kind}")
        await stage.claim("eager")
        await stage.deliver()
        await stage.travel(1)
        await stage.resume(kind, name)
    await stage.rest()


async def stopped_for_days(stage: Stage) -> None:
    """A destination is paused for longer than its messages may take, and fails once when it goes on."""
    await stage.answer("a", "1", lane="c")
    await stage.pause("destination", CRM)
    await stage.travel(2 * 86_400)
    await stage.resume("destination", CRM)
    await stage.deliver(503)
    await stage.rest()


async def down_for_a_while(stage: Stage) -> None:
    """A receiver answers so many with a failure that its breaker opens, and works when it is tried again."""
    for n in range(12):
        await stage.answer(f"a{n}", f"{n}", lane=None)
    await stage.deliver(500)
    await stage.travel(1)
    await stage.deliver()
    await stage.rest()


async def left_too_long(stage: Stage) -> None:
    """The first of a conversation is too old when an agent comes at last; the second is not."""
    await stage.post("a", "c")
    await stage.travel(61)
    await stage.post("b", "c")
    await stage.claim(input_age_seconds_max=60.0)
    await stage.rest()


async def joined_late(stage: Stage) -> None:
    """More comes of a conversation after its turn was claimed and handed back."""
    await stage.post_joining("a", "c")
    await stage.travel(3)
    await stage.hand_back(await stage.claim_one())
    await stage.post_joining("b", "c")
    await stage.travel(3)
    await stage.seal(await stage.claim_one(), "to what came")
    await stage.rest()


async def joined_at_the_claim(stage: Stage) -> None:
    """More comes of a conversation in the moment of its claim."""
    await stage.post_joining("a", "c")
    await stage.travel(3)
    await stage.race(
        lambda sink: stage.claim(sink=sink), lambda sink: stage.post_joining("b", "c", sink=sink)
    )
    await stage.rest()


async def cancelled_while_sent(stage: Stage) -> None:
    """What is being sent is cancelled, and its receiver is busy."""
    message, _ = await stage.answer("a", "1", "2", lane="c")
    taken = await stage.sink.take()
    await stage.cancel_message(message)
    for one in taken:
        stage.receive(one, 503)
    await stage.settle(taken, 503)
    await stage.rest()


async def cancelled_after_its_seal(stage: Stage) -> None:
    """A sealed turn is cancelled while the first of its set is being sent to a busy receiver."""
    held = await stage.hold("a", "c")
    await stage.seal(held, "1", "2")
    taken = await stage.sink.take()
    await stage.cancel(held.turn)
    for one in taken:
        stage.receive(one, 503)
    await stage.settle(taken, 503)
    await stage.rest()


async def redriven_while_sent(stage: Stage) -> None:
    """Somebody redrives a message that is being sent."""
    (message,) = await stage.answer("a", "1", lane="c")
    taken = await stage.sink.take()
    await stage.redrive_message(message)
    await stage.deliver()
    for one in taken:
        stage.receive(one, 204)
    await stage.settle(taken, 204)
    await stage.rest()


async def busy_receiver(stage: Stage) -> None:
    """A receiver that refuses twice in its own way, and then accepts; more waits behind."""
    await stage.answer("a", "1", "2", lane="c")
    await stage.answer("b", "3", lane="c")
    for status in (503, 404):
        await stage.deliver(status)
        await stage.travel(10)
    await stage.rest()


async def two_destinations(stage: Stage) -> None:
    """The last two confirmations of a set come at the same moment, after that of its first message."""
    drafts = [draft("1"), draft("2"), draft("3", destination=MAIL)]
    await stage.answer("a", *drafts, lane=None)
    await stage.deliver()
    await stage.travel(1)
    one, other = await stage.sink.take(), await stage.sink.take(destination=MAIL)
    for taken in (*one, *other):
        stage.receive(taken, 204)
    await stage.race(
        lambda sink: stage.settle(one, 204, sink=sink),
        lambda sink: stage.settle(other, 204, sink=sink),
    )
    await stage.rest()


async def slow_clock(stage: Stage) -> None:
    """The second seal of a conversation is done by a replica whose clock is behind."""
    await stage.answer("a", "1", lane="c")
    behind = IdFactory(
        milliseconds=lambda: time.time_ns() // 1_000_000 - 60_000, random_bytes=os.urandom
    )
    await stage.post("b", "c")
    await stage.seal(await stage.claim_one(), "2", sink=replace(stage.sink, ids=behind))
    await stage.deliver(503)
    await stage.travel(10)
    await stage.rest()


async def cancelled_in_the_middle(stage: Stage) -> None:
    """The middle one of three in a lane is cancelled while the first is in back-off."""
    await stage.answer("a", "1", lane="c")
    (middle,) = await stage.answer("b", "2", lane="c")
    await stage.answer("c", "3", lane="c")
    await stage.deliver(503)
    await stage.cancel_message(middle)
    await stage.deliver()
    await stage.rest()


async def confirmed_and_refused(stage: Stage) -> None:
    """A worker dies with a confirmation in its hands, and the same message is then refused."""
    await stage.answer("a", "1", lane=None)
    for one in await stage.sink.take():
        stage.receive(one, 204)
    await stage.travel(31)
    await stage.sweep()
    await stage.travel(10)
    await stage.deliver(400)
    await stage.rest()


async def cancelled_in_a_strict_set(stage: Stage) -> None:
    """The middle one of a strict set is cancelled while the first is in back-off, elsewhere than the last."""
    drafts = [draft("1", "c"), draft("2", "c", destination=MAIL), draft("3", destination=MAIL)]
    _, middle, _ = await stage.answer("a", *drafts, lane="c", order="strict")
    await stage.answer("b", draft("4", "c", destination=MAIL), lane="c")
    await stage.deliver(503)
    await stage.cancel_message(middle)
    await stage.deliver(destination=MAIL)
    await stage.rest()


async def held_for_a_person(stage: Stage) -> None:
    """A worker dies with a message that is not repeated without a person; later one wants it repeated."""
    stage.agree(holding=(CRM,))
    (message,) = await stage.answer("a", "1", lane="c")
    for one in await stage.sink.take(hold_unknown=True):
        stage.receive(one, None)
    await stage.travel(31)
    await stage.sweep()
    await stage.travel(100)
    await stage.deliver()
    await stage.redrive_message(message)
    await stage.rest()


async def resent_by_one_who_died(stage: Stage) -> None:
    """Whoever was to send a delivered message once more dies before its first byte."""
    (message,) = await stage.answer("a", "1", lane="c")
    await stage.deliver()
    await stage.resend(message)
    await stage.resend(message)
    await stage.sink.take_resends()
    await stage.travel(31)
    await stage.rest()
    for _ in range(3):
        await stage.deliver_resends()
        await stage.travel(61)
