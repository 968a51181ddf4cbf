"""A conversation that is erased leaves no word of it, and not its name; what it came to stays for its keys."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from app.engine.erase import Conversation, Erased, StillLive, erase
from app.engine.matching import Filter
from app.engine.operation import Order, begin_operation, cancel_operation
from tests.engine.stories import (
    DEAD,
    DELIVERED,
    QUEUE,
    UNKNOWN,
    Sink,
    draft,
    only,
    short,
)
from tests.engine.suspense import Suspend
from tests.engine.walks import WINDOWS, walk

if TYPE_CHECKING:
    from uuid import UUID

    from tests.conftest import Travel
    from tests.database import Admin

# Nothing else in a test's rows has these words.
NAME = "ada@example.org"
WORDS = "a very private matter"

TABLES = "select relname from pg_class where relnamespace = 'sink'::regnamespace and relkind = 'r'"


async def _erase(sink: Sink, *, is_open: bool = False, **changes: Any) -> Erased | StillLive:
    given: dict[str, Any] = {"cancel": False, **changes}
    return await erase(
        sink.pool, Conversation(QUEUE, NAME, is_open), windows=WINDOWS, by="ada", **given
    )


async def _erased(sink: Sink, **changes: Any) -> dict[str, int]:
    erased = await _erase(sink, **changes)
    assert isinstance(erased, Erased)
    assert erased.is_done
    return {kind: rows for kind, rows in erased.counts.items() if rows}


async def _words_left(admin: "Admin") -> list[str]:
    """Which of the words are in any column of any row."""
    stored = ""
    for table in await admin.fetch(TABLES):
        for row in await admin.fetch(f"select * from sink.{table['relname']}"):
            stored += " ".join(
                value.decode("latin1") if isinstance(value, bytes) else str(value)
                for value in row.values()
            )
    return [word for word in (NAME, WORDS) if word in stored]


@pytest.mark.parametrize("begun", [False, True])
async def test_a_resend_that_nobody_performs_keeps_nothing_from_being_erased(
    sink: Sink, admin: "Admin", travel: "Travel", *, begun: bool
) -> None:
    turn = await _said(sink, "a")
    (message,) = (await sink.look(turn)).messages
    await sink.ask_resend(message.id)
    if begun:
        await sink.take_resends()
        # What is being sent has to end before.
        assert await _erase(sink, cancel=True) == StillLive(1, 1)
        await travel(31)
        await sink.sweep_resends()
    assert await _erase(sink) == StillLive(1, 0)
    assert (await _erased(sink, cancel=True))["turn"] == 1
    assert await admin.fetchval("select count(*) from sink.resend") == 0
    assert await _words_left(admin) == []


async def _said(sink: Sink, key: str, *, state: Any = DELIVERED) -> Any:
    """One turn of the conversation, full of its words."""
    turn, messages = await sink.sealed(
        key,
        draft(WORDS, NAME, recipient=WORDS, headers={"x": WORDS}),
        conversation=NAME,
    )
    taken = await sink.take_one()
    assert [taken.message] == messages
    await sink.settle((taken, state))
    return turn


async def _operated(sink: Sink, admin: "Admin", *, queues: list[str] | None) -> "UUID":
    """An operation over what the conversation has failed, that is done."""
    begun = await _operation(sink, queues=queues)
    await admin.execute(
        "update sink.operation set state = 'done', ended_at = sink.now() where id = $1", begun
    )
    return begun


async def _operation(sink: Sink, *, queues: list[str] | None) -> "UUID":
    order = Order(
        kind="turn",
        verb="redrive",
        wanted=Filter(states=("failed",), queues=queues, conversation=NAME),
        asked={"conversation": NAME},
    )
    return (await begin_operation(sink.pool, order, ids=sink.ids, by="ada")).id


async def test_no_word_of_it_is_left_anywhere(sink: Sink, admin: "Admin") -> None:
    await sink.accept_one(
        "a", NAME, body=WORDS.encode(), metadata=json.dumps({"w": WORDS}), headers={"x": WORDS}
    )
    held = await sink.claim_one()
    await sink.hand_back(held, reason=WORDS, final=True)
    for n, verdict in enumerate((DELIVERED, DEAD, UNKNOWN)):
        turn = await _said(sink, f"k{n}", state=verdict)
        await admin.execute(
            "insert into sink.loopback select key, 'default', $2, 'crm', 'text/plain', '{}', $3, "
            "sink.now(), sink.now(), 1 from sink.outbox_payload as p inner join sink.outbox as o "
            "on o.id = p.message where o.turn = $1",
            turn,
            NAME,
            WORDS.encode(),
        )
    for queues in ([QUEUE], None):
        await _operated(sink, admin, queues=queues)
    assert await _words_left(admin) == [NAME, WORDS]
    counts = await _erased(sink)
    assert (counts["turn"], counts["inbound"], counts["message"]) == (4, 4, 3)
    assert (counts["attempt"], counts["loopback"]) == (4, 3)
    assert await _words_left(admin) == []
    assert await admin.fetchval("select count(*) from sink.tombstone") == 11
    assert await admin.fetchval("select count(*) from sink.idempotency_key") == 4


async def test_other_conversations_and_queues_are_left_alone(sink: Sink) -> None:
    await _said(sink, "a")
    other = await sink.accept_one("b", "else")
    elsewhere = await sink.accept_one("a", NAME, queue="desk")
    assert (await _erased(sink))["turn"] == 1
    assert await sink.state(other.turn) == "queued"
    assert await sink.state(elsewhere.turn) == "queued"


async def test_operations_of_other_queues_keep_the_name_that_they_looked_for(
    sink: Sink, admin: "Admin"
) -> None:
    await _operated(sink, admin, queues=["desk"])
    await _erased(sink)
    assert await _words_left(admin) == [NAME]


async def test_it_is_not_done_while_an_operation_that_runs_needs_the_name(
    sink: Sink, admin: "Admin"
) -> None:
    await _said(sink, "a")
    begun = await _operation(sink, queues=None)
    erased = await _erase(sink)
    assert isinstance(erased, Erased)
    assert (erased.is_done, erased.counts["turn"]) == (False, 1)
    assert await cancel_operation(sink.pool, begun)
    assert await _erased(sink) == {}
    assert await _words_left(admin) == []


async def test_a_duplicate_of_what_was_erased_still_meets_its_tombstone(sink: Sink) -> None:
    turn = await _said(sink, "a", state=DEAD)
    await _erased(sink)
    again = await sink.accept_one("a", NAME)
    assert (again.duplicate, again.turn, again.state) == (True, turn, "undelivered")


async def test_what_came_after_is_another_conversation_of_the_same_name(sink: Sink) -> None:
    await _said(sink, "a")
    await _erased(sink)
    await _said(sink, "b")
    assert (await _erased(sink))["turn"] == 1
    assert await _erased(sink) == {}


async def test_what_lives_is_not_erased_unless_it_may_be_cancelled(
    sink: Sink, admin: "Admin"
) -> None:
    await _said(sink, "done")
    held = await sink.hold("held", NAME)
    await sink.accept_one("waiting", NAME)
    await sink.accept_one("later", NAME, delay_seconds=60)
    assert await _erase(sink) == StillLive(live=3, sending=0)
    assert await sink.state(held.turn) == "processing"
    assert (await _erased(sink, cancel=True))["turn"] == 4
    assert type(only(await sink.renew(held))).__name__ == "NoSuchTurn"
    assert await _words_left(admin) == []


async def test_what_is_sealed_is_cancelled_before_it_is_erased(sink: Sink) -> None:
    turn, _ = await sink.sealed("a", draft(WORDS, NAME), draft(WORDS, NAME), conversation=NAME)
    await sink.settle_next(DELIVERED)
    assert await _erase(sink) == StillLive(live=1, sending=0)
    assert (await _erased(sink, cancel=True))["message"] == 2
    again = await sink.accept_one("a", NAME)
    assert (again.turn, again.state) == (turn, "undelivered")
    assert await sink.take() == []


async def test_what_is_being_sent_is_waited_for(sink: Sink) -> None:
    turn, _ = await sink.sealed("a", draft(WORDS, NAME), conversation=NAME)
    taken = await sink.take_one()
    for cancel in (False, True):
        assert await _erase(sink, cancel=cancel) == StillLive(live=1, sending=1)
        assert await sink.state(turn) == "sealed"
    await sink.settle((taken, UNKNOWN))
    assert (await _erased(sink))["turn"] == 1


async def test_joined_inbound_go_together(sink: Sink, travel: "Travel") -> None:
    await sink.accept(*(short(f"s{n}", NAME) for n in range(3)))
    await travel(3)
    await sink.seal_one(await sink.claim_one())
    assert (await _erased(sink))["inbound"] == 3


async def test_turns_of_others_that_wrote_into_it_go_as_a_whole(sink: Sink, admin: "Admin") -> None:
    turn, _ = await sink.sealed("a", draft(WORDS, NAME), draft("x", "else"), conversation="else")
    await sink.sealed("b", draft("y", "else"), conversation="else")
    for _ in range(3):
        await sink.settle_next(DELIVERED)
    assert await _erased(sink) == {}
    assert await _words_left(admin) == [NAME, WORDS]
    assert (await _erased(sink, is_open=True))["message"] == 2
    assert await _words_left(admin) == []
    again = await sink.accept_one("a", "else")
    assert (again.turn, again.state) == (turn, "replied")


async def test_what_others_are_about_to_send_into_it_is_live(sink: Sink) -> None:
    await sink.sealed("a", draft(WORDS, NAME), conversation="else")
    assert await _erase(sink, is_open=True) == StillLive(live=1, sending=0)
    assert (await _erased(sink, is_open=True, cancel=True))["turn"] == 1


async def test_more_than_one_call_takes_is_said(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in (("TURNS_MAX", 2), ("STEPS_MAX", 2), ("MESSAGES_MAX", 2)):
        monkeypatch.setattr(f"app.engine.erase.{name}", most)
    for n in range(5):
        await _said(sink, f"k{n}")
    await sink.sealed("into", draft(WORDS, NAME), conversation="else")
    await sink.settle_next(DELIVERED)
    calls, turns, after = 0, 0, dict[str, Any]()
    while True:
        erased = await _erase(sink, is_open=True, **after)
        assert isinstance(erased, Erased)
        calls, turns = calls + 1, turns + erased.counts["turn"]
        if erased.is_done:
            break
        after = {"after": erased.after}
    assert (turns, calls > 2) == (6, True)


async def test_what_is_accepted_during_an_erasure_is_left_for_the_next_call(
    sink: Sink, suspend: Suspend
) -> None:
    await _said(sink, "a")
    async with suspend() as replica:
        await replica.sink.accept_one("b", NAME)
        waiting = await replica.blocks(_erase(sink))
    erased = waiting.result()
    assert isinstance(erased, Erased)
    assert erased.counts["turn"] == 1
    assert await _erase(sink) == StillLive(live=1, sending=0)
    assert await sink.claim_one()


async def test_an_erased_conversation_expires_like_a_purged_one(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    await _said(sink, "a")
    await _erased(sink)
    await travel(31 * 86_400)
    await walk(sink.pool)
    assert await admin.fetchval("select count(*) from sink.idempotency_key") == 0
    assert await admin.fetchval("select count(*) from sink.tombstone") == 0
