"""What does not match its seal is never sent, and ends where it can do no harm."""

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from app.domain.model import Verdict
from tests.engine.stories import (
    CRM,
    DEAD,
    UNKNOWN,
    Sink,
    draft,
)

if TYPE_CHECKING:
    from tests.database import Admin

STUCK = pytest.mark.parametrize("verdict", [DEAD, UNKNOWN], ids=["dead", "unknown"])


async def _takeable(sink: Sink, destination: str = CRM) -> list[UUID]:
    return [one.message for one in await sink.take(destination=destination)]


@pytest.mark.parametrize(
    "forgery",
    [
        "update sink.outbox_payload set body = 'x'",
        'update sink.outbox_payload set headers = \'{"x": "1"}\'',
        "update sink.outbox_payload set recipient = 'eve'",
        "update sink.outbox_payload set content_type = 'text/html'",
        "update sink.outbox_payload set hash = sha256('x')",
        "update sink.outbox set delay_seconds = 1",
        "delete from sink.outbox_payload",
    ],
)
async def test_what_does_not_match_its_seal_is_never_sent(
    sink: Sink, admin: "Admin", forgery: str
) -> None:
    turn, (message,) = await sink.sealed("a", draft("1"))
    await admin.execute("create temporary table kept as select * from sink.outbox_payload")
    await admin.execute(forgery)
    _, (good,) = await sink.sealed("b", draft("2"))
    assert await _takeable(sink) == [good]
    row = await admin.fetchrow(
        "select state, reason, attempts from sink.outbox where id = $1", message
    )
    assert tuple(row or ()) == ("dead", "integrity", 0)
    assert await sink.state(turn) == "undelivered"
    # Behind every test nothing may hang on what is gone.
    await admin.execute("insert into sink.outbox_payload select * from kept on conflict do nothing")


async def test_what_is_sent_elsewhere_than_sealed_is_never_sent(sink: Sink, admin: "Admin") -> None:
    turn, _ = await sink.sealed("a", draft("1"))
    await admin.execute("update sink.outbox set destination = 'evil'")
    assert await sink.take(destination="evil") == []
    assert await sink.state(turn) == "undelivered"


async def test_what_is_spoiled_after_it_may_have_arrived_ends_unknown(
    sink: Sink, admin: "Admin"
) -> None:
    turn, _ = await sink.sealed("a", draft("1"))
    perhaps = Verdict("pending", reason="timeout", may_have_arrived=True)
    await sink.settle((await sink.take_one(), perhaps))
    await admin.execute("update sink.outbox_payload set body = 'x'")
    assert await sink.take() == []
    assert await sink.states(turn) == ["unknown"]
    assert await sink.state(turn) == "undelivered"


async def test_a_spoiled_message_stops_its_set_and_lets_the_others_by(
    sink: Sink, admin: "Admin"
) -> None:
    _, (spoiled, second) = await sink.sealed(
        "a", draft("1", "c"), draft("2", "c"), conversation="c"
    )
    _, (third,) = await sink.sealed("b", draft("3", "c"), conversation="c")
    await admin.execute("update sink.outbox_payload set body = 'x' where message = $1", spoiled)
    # What was spoiled ends, and what it blocked is found in the same call.
    assert await _takeable(sink) == [third]
    assert (
        await admin.fetchval("select state from sink.outbox where id = $1", second)
    ) == "pending"
