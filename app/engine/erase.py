"""Erase: everything that a conversation said and was told goes, whatever its age; tombstones and keys stay.

What is left says that there was something, and what became of it, without a word of it and without the conversation's
name. In bounded steps, each a transaction of its own that takes whole turns: repeat the call until it is done.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.engine.cancel import cancel_turns
from app.engine.expire import drop_delivery_lanes, drop_lanes
from app.engine.purge import FIRST, Windows, bury
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link, Statement

SQL = load(__file__)

TURNS_MAX: Final = 200
MESSAGES_MAX: Final = 5000
STEPS_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is to be erased. `is_open`: messages of other conversations' turns may be in it."""

    queue: str
    name: str
    is_open: bool

    @property
    def names(self) -> dict[str, str]:
        """For the statements."""
        return {"queue": self.queue, "conversation": self.name}


@dataclass(frozen=True, slots=True)
class Erased:
    """What went, by kind. Unless `is_done`, call again with `after`."""

    counts: Mapping[str, int]
    is_done: bool
    after: UUID


@dataclass(frozen=True, slots=True)
class StillLive:
    """Nothing was erased: so many turns at least have not ended, and of so many something is being sent now."""

    live: int
    sending: int


async def erase(
    pool: "Pool",
    conversation: Conversation,
    *,
    windows: Windows,
    cancel: bool,
    by: str,
    after: UUID = FIRST,
) -> Erased | StillLive:
    """Erase what has ended of a conversation. With `cancel` what has not is cancelled before.

    `after` goes on where an earlier call has come to in looking for messages that others wrote into it.
    """
    live = await _ended(pool, conversation, cancel=cancel, by=by)
    if live is not None:
        return live
    counts: Counter[str] = Counter()
    steps = STEPS_MAX
    while steps:
        steps -= 1
        turns = await _turns_of(pool, conversation)
        if not turns:
            break
        gone = await _bury(pool, turns, windows=windows)
        counts += gone
        if not gone["turn"]:
            # Something came in between, or is looked at by somebody else.
            return Erased(counts, is_done=False, after=after)
    else:
        return Erased(counts, is_done=False, after=after)
    reached: UUID | None = after if conversation.is_open else None
    while reached is not None and steps:
        steps -= 1
        after = reached
        written, living, reached = await _written_into(pool, conversation, after=after)
        if living and not cancel:
            return StillLive(len(living), 0)
        if living:
            await cancel_turns(pool, living, by=by)
        gone = await _bury(pool, written, windows=windows)
        counts += gone
        if gone["turn"] < len(written):
            return Erased(counts, is_done=False, after=after)
    if reached is not None:
        return Erased(counts, is_done=False, after=reached)
    received, is_needed = await _forget(pool, conversation)
    counts["loopback"] += received
    return Erased(counts, is_done=not is_needed, after=FIRST)


async def _ended(
    pool: "Pool", conversation: Conversation, *, cancel: bool, by: str
) -> StillLive | None:
    """None once everything has ended, as far as it can be made to."""
    live: Sequence[Record] = ()
    for _ in range(STEPS_MAX):
        live = await _read(pool, SQL["find_live"], **conversation.names, turns_max=TURNS_MAX)
        waiting = [row["id"] for row in live if not row["is_sending"]]
        if not waiting or not cancel:
            break
        turns = [row["id"] for row in live]
        await cancel_turns(pool, turns, by=by)
        await _drop_resends(pool, turns, by=by)
    if not live:
        return None
    return StillLive(len(live), sum(row["is_sending"] for row in live))


async def _drop_resends(pool: "Pool", turns: Sequence[UUID], *, by: str) -> None:
    async def work(connection: "Link") -> None:
        await SQL["drop_resends"].run(connection, turns=list(turns), by=by)

    await transact(pool, work, explicit=False)


async def _turns_of(pool: "Pool", conversation: Conversation) -> list[UUID]:
    rows = await _read(pool, SQL["find_concerned"], **conversation.names, rows_max=TURNS_MAX)
    return [row["turn"] for row in rows]


async def _written_into(
    pool: "Pool", conversation: Conversation, *, after: UUID
) -> tuple[list[UUID], list[UUID], UUID | None]:
    """Turns with a message in the conversation, of a stretch of all, and which of them have not ended.

    And where the next begins: None at the end.
    """
    rows = await _read(
        pool, SQL["look_for_written"], **conversation.names, after=after, rows_max=MESSAGES_MAX
    )
    turns = sorted({row["turn"] for row in rows if row["is_written"]})
    living = sorted({row["turn"] for row in rows if row["is_written"] and row["is_live"]})
    return turns, living, rows[-1]["id"] if len(rows) == MESSAGES_MAX else None


async def _bury(pool: "Pool", turns: Sequence[UUID], *, windows: Windows) -> Counter[str]:
    async def work(connection: "Link") -> Counter[str]:
        return await bury(connection, turns, windows=windows, is_erasure=True)

    return await transact(pool, work)


async def _forget(pool: "Pool", conversation: Conversation) -> tuple[int, bool]:
    """The name goes from where it stands by itself.

    Returns how many copies the loopback channel had left, and whether the name is still needed: by an operation that
    runs, or by what is to follow since.
    """

    async def work(connection: "Link") -> tuple[int, bool]:
        names = conversation.names
        (following,) = await SQL["erase_follow_ups"].rows(connection, **names)
        await drop_lanes(connection, await SQL["hold_lane_of"].rows(connection, **names))
        held = await SQL["hold_delivery_lanes_of"].rows(connection, **names)
        await drop_delivery_lanes(connection, held)
        (running,) = await SQL["erase_filters"].rows(connection, **names)
        (received,) = await SQL["erase_loopback"].rows(connection, **names)
        return int(received["rows"]), bool(running["rows"] or following["is_left"])

    return await transact(pool, work)


async def _read(pool: "Pool", statement: "Statement", **values: object) -> "list[Record]":
    async def work(connection: "Link") -> "list[Record]":
        return await statement.rows(connection, **values)

    return await transact(pool, work, explicit=False)
