"""Resend: a delivered message is sent once more under its key, by attempts of their own.

What was asked for is a row until it is done, so that a crash behind the answer loses nothing: at least one attempt is
made. Neither the message nor its turn moves; asking, beginning and ending are events of the message.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.model import Changed, DeliveryPolicy, Slots, Taken, Verdict
from app.domain.outcome import Unknown
from app.domain.retry import after_resend
from app.engine.delivery import lock_for_messages
from app.engine.statements import load
from app.engine.take import intact, taken_of
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

_SPOILED = Verdict("dead", reason="integrity")


@dataclass(frozen=True, slots=True)
class Resend:
    """An attempt to send once more. Of what was taken, `attempt` numbers the attempts of this resend."""

    id: UUID
    taken: Taken


@dataclass(frozen=True, slots=True)
class ResendSettlement:
    """The verdict on an attempt to send once more."""

    resend: UUID
    attempt_id: UUID
    verdict: Verdict


async def resend_messages(
    pool: "Pool", messages: Sequence[UUID], *, by: str
) -> list[Changed | None]:
    """Ask for each message that is delivered to be sent once more; None for one that does not exist.

    Until it is begun, asking again is answered as a repeat.
    """

    async def work(connection: "Link") -> list[Changed | None]:
        return await resend_messages_in(connection, messages, by=by)

    return await transact(pool, work)


async def resend_messages_in(
    connection: "Link", messages: Sequence[UUID], *, by: str
) -> list[Changed | None]:
    """Ask for messages to be sent once more inside a transaction of somebody else."""
    await lock_for_messages(connection, messages)
    rows = {
        row["id"]: row
        for row in await SQL["ask_resends"].rows(connection, messages=list(messages), by=by)
    }
    return [
        Changed(
            rows[id_]["state"],
            rows[id_]["is_asked"],
            repeated=rows[id_]["state"] == "delivered" and not rows[id_]["is_asked"],
        )
        if id_ in rows
        else None
        for id_ in messages
    ]


async def any_resends(pool: "Pool") -> bool:
    """Whether anything is to be sent once more, now or later."""

    async def work(connection: "Link") -> bool:
        (row,) = await SQL["any_resends"].rows(connection)
        found: bool = row["found"]
        return found

    return await transact(pool, work, explicit=False)


async def take_resends(pool: "Pool", slots: Sequence[Slots]) -> list[Resend]:
    """Take up to `count` for each destination. One whose bytes are not those that were sealed ends here, unsent."""

    async def find(connection: "Link") -> "list[Record]":
        return await SQL["find_resends"].rows(
            connection,
            destinations=[slot.destination for slot in slots],
            counts=[slot.count for slot in slots],
            leases=[slot.lease_seconds for slot in slots],
            hold_unknown=[slot.hold_unknown for slot in slots],
        )

    found = await transact(pool, find, explicit=False)
    if not found:
        return []

    async def work(connection: "Link") -> "list[Record]":
        return await SQL["take_resends"].rows(
            connection,
            resends=[row["id"] for row in found],
            leases=[row["lease_seconds"] for row in found],
            hold_unknown=[row["hold_unknown"] for row in found],
        )

    rows = await transact(pool, work)
    spoiled = [
        ResendSettlement(row["resend"], row["attempt_id"], _SPOILED)
        for row in rows
        if not intact(row)
    ]
    if spoiled:
        await settle_resends(pool, spoiled)
    return [Resend(row["resend"], taken_of(row, row)) for row in rows if intact(row)]


async def settle_resends(
    pool: "Pool", settlements: Sequence[ResendSettlement], *, lapsed: bool = False
) -> list[bool]:
    """Write each verdict whose lease still holds, and tell of each whether it did; `pending` is another attempt later.

    With `lapsed` only attempts whose lease is over are settled.
    """
    verdicts = [item.verdict for item in settlements]

    async def work(connection: "Link") -> list[bool]:
        rows = await SQL["settle_resends"].rows(
            connection,
            resends=[item.resend for item in settlements],
            attempt_ids=[item.attempt_id for item in settlements],
            states=[verdict.state for verdict in verdicts],
            delays=[verdict.delay_seconds for verdict in verdicts],
            reasons=[verdict.reason for verdict in verdicts],
            receipts=[verdict.receipt for verdict in verdicts],
            statuses=[verdict.answer.status if verdict.answer else None for verdict in verdicts],
            excerpts=[verdict.answer.excerpt if verdict.answer else None for verdict in verdicts],
            lapsed=lapsed,
        )
        held = {row["id"] for row in rows}
        return [item.resend in held for item in settlements]

    return await transact(pool, work)


async def sweep_resends(
    pool: "Pool",
    *,
    policies: Mapping[str, DeliveryPolicy],
    rows_max: int,
    jitter: random.Random,
) -> int:
    """Settle up to `rows_max` attempts whose worker did not come back, each as unknown; returns how many there were."""

    async def find(connection: "Link") -> "list[Record]":
        return await SQL["find_lapsed_resends"].rows(connection, rows_max=rows_max)

    found = await transact(pool, find, explicit=False)
    settlements = [
        ResendSettlement(
            row["id"],
            row["attempt_id"],
            after_resend(
                Unknown("lease_lapsed"),
                attempts=row["attempts"],
                age_seconds=row["age_seconds"],
                policy=policies.get(row["destination"]),
                jitter=jitter.random(),
                hold_unknown=row["hold_unknown"],
            ),
        )
        for row in found
    ]
    return sum(await settle_resends(pool, settlements, lapsed=True)) if settlements else 0
