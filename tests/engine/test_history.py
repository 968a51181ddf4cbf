"""The history that a claim brings: how earlier attempts ended and what was said of them, as far as there is room."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.domain.model import Claimed, Decided, DraftMessage, HistoryEntry, Revision, Woken
from app.engine.history import ENTRIES_MAX
from tests.engine.held_stories import decide, deciding, later, seal_held
from tests.engine.stories import Sink, arrival, draft, only

if TYPE_CHECKING:
    from tests.database import Admin

KIB = 1 << 10


def said(history: Sequence[HistoryEntry]) -> list[bytes | None]:
    """The bodies of what signals said, and None where there was no room for one."""
    return [entry.said.body for entry in history if isinstance(entry.said, Woken)]


async def told_so_often(sink: Sink, count: int, size: int) -> None:
    """A turn that has parked and was told something of this size, so often; it is queued."""
    held = await sink.hold("a")
    for n in range(count):
        await sink.park_one(held, f"n{n}")
        await sink.signal_one(held.turn, f"n{n}", '"%s"' % (str(n) * (size - 2)))
        if n + 1 < count:
            held = await sink.claim_one()


async def test_what_was_said_stands_beside_the_attempt_that_had_asked(sink: Sink) -> None:
    await told_so_often(sink, 3, 3)
    history = (await sink.claim_one()).history
    assert [entry.attempt for entry in history] == [1, 2, 3]
    assert said(history) == [b'"0"', b'"1"', b'"2"']


async def test_what_was_said_before_comes_as_far_as_there_is_room(sink: Sink) -> None:
    await told_so_often(sink, 4, KIB)
    # The input is three bytes long.
    held = await sink.claim_one(answer_bytes_max=3 + 2 * KIB)
    bodies = said(held.history)
    assert [body is None for body in bodies] == [True, True, False, False]
    omitted = [entry.said.omitted for entry in held.history if isinstance(entry.said, Woken)]
    assert omitted == [True, True, False, False]


async def test_what_was_said_last_always_comes(sink: Sink) -> None:
    await told_so_often(sink, 2, 64 * KIB)
    held = await sink.claim_one(answer_bytes_max=1)
    older, last = said(held.history)
    assert older is None
    assert last is not None
    assert len(last) == 64 * KIB


async def test_what_was_said_last_counts_when_an_answer_is_filled(sink: Sink) -> None:
    for held in [await sink.parked(f"k{n}") for n in range(4)]:
        await sink.signal_one(held.turn, said='"%s"' % ("x" * (KIB - 2)))
    await sink.accept(*(arrival(f"new-{n}", body=b"1") for n in range(4)))
    # Four bytes of input each, and one each of the others.
    first = await sink.claim(8, answer_bytes_max=2 * (KIB + 4) + 1)
    assert [len(one.history) for one in first] == [1, 1]
    second = await sink.claim(8, answer_bytes_max=2 * (KIB + 4) + 4)
    assert [len(one.history) for one in second] == [1, 1, 0, 0, 0, 0]


async def test_the_newest_attempts_are_told_of_a_thousand(sink: Sink, admin: "Admin") -> None:
    held = await sink.hold("a")
    await sink.hand_back(held)
    await admin.execute(
        """
        insert into sink.attempt (turn, number, token, agent, claimed_at, ended, ended_at, reason)
        select $1, n, gen_random_uuid(), 'a', sink.now(), 'released', sink.now(), 'client_gone'
        from generate_series(2, 1000) as n
        """,
        held.turn,
    )
    await admin.execute("update sink.turn set attempt = 1000")
    again = await sink.claim_one()
    assert again.attempt == 1001
    newest = list(range(1001 - ENTRIES_MAX, 1001))
    assert [entry.attempt for entry in again.history] == newest


async def test_a_hundred_large_signals_do_not_keep_a_turn_from_its_agent(sink: Sink) -> None:
    await told_so_often(sink, 40, 256 * KIB)
    held = await sink.claim_one(answer_bytes_max=KIB << 10)
    assert sum(len(body or b"") for body in said(held.history)) <= KIB << 10
    assert len(held.history) == 40


async def test_a_claim_that_is_repeated_tells_the_same_history(sink: Sink) -> None:
    await told_so_often(sink, 2, KIB)
    wish = {"request_id": "r" * 16}
    first = await sink.claim_one(**wish)
    again = await sink.claim_one(**wish)
    assert first.history == again.history != ()


async def sent_back(sink: Sink, held: Claimed, comment: str, *drafts: DraftMessage) -> str:
    """A set that a reviewer wants otherwise; its hash."""
    sealed = await seal_held(sink, held, *drafts)
    wanted = deciding(held.turn, sealed.payload_hash, "revise", comment=comment)
    outcome = only(await decide(sink, wanted))
    assert isinstance(outcome, Decided)
    return sealed.payload_hash


async def test_a_reviewers_comment_comes_with_the_set_that_is_void(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    drafts = draft("too long", "c", recipient="ann"), draft("\x00", content_type="x/y")
    void = await sent_back(sink, held, "shorter", *drafts)
    again = await sink.claim_one()
    (entry,) = again.history
    assert (entry.attempt, entry.ended, entry.reason) == (1, "revised", None)
    assert isinstance(entry.said, Revision)
    assert (entry.said.by, entry.said.comment, entry.said.payload_hash) == ("ada", "shorter", void)
    told = [
        (one.destination, one.recipient, one.conversation, one.content_type, one.body)
        for one in entry.said.messages
    ]
    assert told == [
        ("crm", "ann", "c", "text/plain", b"too long"),
        ("crm", None, None, "x/y", b"\x00"),
    ]
    # What the next attempt seals is a set of its own, and approved it is none of the history.
    assert await sent_back(sink, again, "shorter still", draft("long", "c")) != void
    last = await sink.claim_one()
    comments = [one.said.comment for one in last.history if isinstance(one.said, Revision)]
    assert comments == ["shorter", "shorter still"]


async def test_what_a_void_set_asked_for_later_comes_with_it(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    wanted = [later("1", "c", delay_seconds=60.0, key="k"), later("2")]
    void = await seal_held(sink, held, draft("1", "c"), follow_ups=wanted)
    await decide(sink, deciding(held.turn, void.payload_hash, "revise"))
    (entry,) = (await sink.claim_one()).history
    assert isinstance(entry.said, Revision)
    assert [
        (one.queue, one.conversation, one.key, one.delay_seconds, one.not_before, one.body)
        for one in entry.said.follow_ups
    ] == [("default", "c", "k", 60.0, None, b'"1"'), ("default", None, None, 0.0, None, b'"2"')]


async def test_what_a_void_set_asked_for_later_counts_like_its_messages(sink: Sink) -> None:
    held = await sink.hold("a")
    for n in range(2):
        wanted = [later("x" * KIB)]
        void = await seal_held(sink, held, draft("y" * KIB), follow_ups=wanted)
        await decide(sink, deciding(held.turn, void.payload_hash, "revise", comment=f"no {n}"))
        held = await sink.claim_one(answer_bytes_max=3 + 3 * KIB)
    revisions = [one.said for one in held.history if isinstance(one.said, Revision)]
    assert [(one.omitted, len(one.follow_ups)) for one in revisions] == [(True, 0), (False, 1)]


async def test_a_revised_set_comes_whole_and_older_ones_where_there_is_room(sink: Sink) -> None:
    held = await sink.hold("a")
    for n in range(3):
        await sent_back(sink, held, f"no {n}", draft("x" * KIB), draft("y" * KIB))
        held = await sink.claim_one(answer_bytes_max=3 + 3 * KIB)
    revisions = [one.said for one in held.history if isinstance(one.said, Revision)]
    assert [one.comment for one in revisions] == ["no 0", "no 1", "no 2"]
    assert [one.omitted for one in revisions] == [True, True, False]
    assert [len(one.messages) for one in revisions] == [0, 0, 2]


async def test_a_revised_set_counts_when_an_answer_is_filled(sink: Sink) -> None:
    for held in [await sink.hold(f"k{n}") for n in range(3)]:
        await sent_back(sink, held, "no", draft("x" * KIB), draft("y" * KIB))
    claimed = await sink.claim(3, answer_bytes_max=2 * (4 + 2 * KIB))
    assert len(claimed) == 2


async def test_what_a_revised_set_asked_for_later_counts_when_an_answer_is_filled(
    sink: Sink,
) -> None:
    for held in [await sink.hold(f"k{n}") for n in range(3)]:
        void = await seal_held(sink, held, follow_ups=[later("x" * KIB)])
        await decide(sink, deciding(held.turn, void.payload_hash, "revise"))
    assert len(await sink.claim(3, answer_bytes_max=2 * (6 + KIB))) == 2


async def test_parks_and_revisions_of_a_turn_stand_in_their_order(sink: Sink) -> None:
    held = await sink.parked("a", "c")
    await sink.signal_one(held.turn)
    await sent_back(sink, await sink.claim_one(), "no", draft("1", "c"))
    history = (await sink.claim_one()).history
    assert [(one.attempt, one.ended) for one in history] == [(1, "parked"), (2, "revised")]
