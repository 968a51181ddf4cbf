"""A message that may have arrived is not sent again once its destination may have forgotten its key."""

from typing import TYPE_CHECKING

from app.domain.model import Slots
from app.domain.outcome import Delivered
from app.engine import take
from tests.engine.breaker_stories import FAILS, REFUSED, end
from tests.engine.stories import CRM, Sink, draft

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


async def test_a_message_whose_key_may_be_forgotten_is_not_sent_again(
    sink: Sink, travel: "Travel", admin: "Admin"
) -> None:
    turn, (message, behind) = await sink.sealed("a", draft("1"), draft("2"))
    remembers = [Slots(CRM, 10, 30.0, key_ttl_seconds=100.0)]
    (taken,) = (await take.take(sink.pool, remembers)).messages
    await end(sink, (taken, FAILS))
    await travel(99)
    (taken,) = (await take.take(sink.pool, remembers)).messages
    await end(sink, (taken, FAILS))
    await travel(2)
    assert (await take.take(sink.pool, remembers)).messages == []
    row = await admin.fetchrow("select * from sink.outbox where id = $1", message)
    assert row is not None
    assert (row["state"], row["reason"], row["attempts"]) == ("unknown", "key_expired", 2)
    assert await sink.state(turn) == "undelivered"
    # A person wants it in spite of that: then it is sent, and what its set waits for is sent behind it.
    await sink.redrive_messages(message)
    (taken,) = (await take.take(sink.pool, remembers)).messages
    assert taken.message == message
    await end(sink, (taken, Delivered()))
    (taken,) = (await take.take(sink.pool, remembers)).messages
    assert taken.message == behind


async def test_a_message_that_certainly_did_not_arrive_is_sent_however_old_its_key(
    sink: Sink, travel: "Travel"
) -> None:
    await sink.sealed("a", draft("1"))
    remembers = [Slots(CRM, 10, 30.0, key_ttl_seconds=100.0)]
    (taken,) = (await take.take(sink.pool, remembers)).messages
    await end(sink, (taken, REFUSED))
    await travel(500)
    assert len((await take.take(sink.pool, remembers)).messages) == 1
