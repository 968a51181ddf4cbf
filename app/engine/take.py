"""Take: lease due messages to a worker and record the attempt, before the first byte of it leaves.

Each row is checked against the hash of its seal; one that does not match is never sent. All workers together keep to
the limits of a destination: its row counts what is being sent, what its rate allows, and has its breaker.
"""

import contextlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from app.domain.errors import NotReady
from app.domain.model import Slots, Taken, Takes
from app.domain.seal import message_hash, spell_place
from app.engine.delivery import follow_up, lock_for_messages
from app.engine.earlier import NOTHING, find_earlier
from app.engine.statements import load
from app.engine.transaction import TRIES_MAX, transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

# A rate that gives many in a moment is come back for after this, and a limit that others use up likewise.
REST_SECONDS_MIN = 0.02
CROWDED_SECONDS = 0.1


class _Spoiled(Exception):
    """Some that were taken are not to be sent, by why: undo the take, end them, take again."""

    def __init__(self, reasons: Mapping[UUID, str]) -> None:
        super().__init__("not to be sent")
        self.reasons = reasons


async def take(pool: "Pool", slots: Sequence[Slots]) -> Takes:
    """Take up to `count` messages for each destination, the longest due first, within the limits over all workers.

    Nothing is given for what is paused, or has an open breaker.
    """

    async def work(connection: "Link") -> "tuple[list[Record], list[Taken]]":
        rows = await SQL["take_messages"].rows(
            connection,
            destinations=[slot.destination for slot in slots],
            counts=[slot.count for slot in slots],
            leases=[slot.lease_seconds for slot in slots],
            hold_unknown=[slot.hold_unknown for slot in slots],
            concurrency=[slot.concurrency_max for slot in slots],
            rates=[slot.rate_per_second for slot in slots],
            since=[slot.since for slot in slots],
        )
        taken = sorted(
            (row for row in rows if row["id"]), key=lambda row: (row["due_at"], row["id"])
        )
        earlier = await find_earlier(connection, taken, slots)
        spoiled = {row["id"]: why for row in taken if (why := _why_not(row, earlier))}
        if spoiled:
            raise _Spoiled(spoiled)
        return rows, [taken_of(row, earlier.get(row["id"])) for row in taken]

    limits: dict[str, str] = {}
    rests: list[float] = []
    for _ in range(TRIES_MAX):
        try:
            rows, given = await transact(pool, work)
        except _Spoiled as found:
            await _condemn(pool, found.reasons)
            continue
        # What is said of a destination is the same with each of its messages.
        places = {row["slot"]: row for row in rows}
        latest = {name: row["latest"] for name, row in places.items() if row["latest"]}
        limits |= {name: row["limited_by"] for name, row in places.items() if row["limited_by"]}
        rests += [rest for row in places.values() if (rest := _rest_seconds(row)) is not None]
        new = {name for name, row in places.items() if not row["is_known"]}
        if not new:
            return Takes(given, limits, min(rests, default=None), latest)
        if given:
            # They are leased: whatever becomes of the new ones, these are sent. The rest comes next.
            with contextlib.suppress(NotReady):
                await _make(pool, new)
            return Takes(given, limits, 0.0, latest)
        await _make(pool, new)
        slots = [slot for slot in slots if slot.destination in new]
    return Takes((), rest_seconds=0.0)


async def _make(pool: "Pool", destinations: Collection[str]) -> None:
    """In a transaction of its own: who makes a row waits for whoever makes it, too, and holds nothing meanwhile."""

    async def work(connection: "Link") -> None:
        await SQL["make_destinations"].run(connection, destinations=list(destinations))

    await transact(pool, work, explicit=False)


def _rest_seconds(row: "Record") -> float | None:
    """When a limit may let more pass, where that is known: everything else is told of."""
    match row["limited_by"]:
        case "rate":
            seconds = row["token_in"]
        case "asked":
            seconds = row["asked_in"]
        case "concurrency":
            return CROWDED_SECONDS
        case "breaker" if row["probe_in"] is not None and row["probe_in"] > 0:
            seconds = row["probe_in"]
        case _:
            return None
    return max(float(seconds), REST_SECONDS_MIN)


async def _condemn(pool: "Pool", reasons: Mapping[UUID, str]) -> None:
    async def work(connection: "Link") -> None:
        await lock_for_messages(connection, reasons)
        ended = await SQL["condemn_messages"].rows(
            connection, messages=list(reasons), reasons=list(reasons.values())
        )
        await follow_up(connection, [(row["id"], row["turn"], row["state"]) for row in ended])

    await transact(pool, work)


def _why_not(row: "Record", earlier: "Mapping[UUID, Record]") -> str | None:
    if not intact(row):
        return "integrity"
    return "key_expired" if earlier.get(row["id"], NOTHING)["is_key_expired"] else None


def intact(row: "Record") -> bool:
    """Whether a row says what was sealed."""
    return row["hash"] is not None and row["hash"] == message_hash(
        destination=row["destination"],
        recipient=row["recipient"],
        conversation=row["conversation"],
        headers=_headers(row["headers"]),
        content_type=row["content_type"],
        delay_seconds=row["delay_seconds"],
        body=row["body"],
        place=spell_place(row["address"], row["reply_of"]),
    )


def _headers(text: str) -> dict[str, str]:
    """Headers as they are stored; nearly all messages have none."""
    if text == "{}":
        return {}
    headers: dict[str, str] = json.loads(text)
    return headers


def taken_of(row: "Record", earlier: "Record | None") -> Taken:
    """What was taken, from its row, and from that of what came before it, where there is something."""
    told: Mapping[str, Any] | Record = NOTHING if earlier is None else earlier
    return Taken(
        message=row["id"],
        turn=row["turn"],
        attempt_id=row["attempt_id"],
        attempt=row["attempts"],
        attempts_used=row["attempts_used"],
        may_have_arrived=row["may_have_arrived"],
        age_seconds=(row if earlier is None else earlier)["age_seconds"],
        queue=row["queue"],
        conversation=row["conversation"],
        destination=row["destination"],
        key=row["key"],
        recipient=row["recipient"],
        headers=_headers(row["headers"]),
        content_type=row["content_type"],
        body=row["body"],
        sealed_at=row["sealed_at"],
        attempted_at=row["attempted_at"],
        expires_at=row["expires_at"],
        address=row["address"],
        reply=told["reply"],
        is_wanted=told["is_wanted"],
        first_attempted_at=told["first_attempted_at"],
    )
