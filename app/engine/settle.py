"""Settle: write what became of delivery attempts, and all that follows for their sets, in one transaction."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.model import Settled, Settlement
from app.engine.delivery import follow_up, lock_for_messages
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


async def settle(pool: "Pool", settlements: Sequence[Settlement]) -> list[Settled]:
    """Settle each attempt whose lease still holds; one outcome each, in order.

    A delivery whose lease was lost is a fact all the same: tell it to `record_facts`.
    """

    async def work(connection: "Link") -> list[Settled]:
        held = await settle_attempts(connection, settlements, verb="settle", lapsed=False)
        return [
            Settled(item.message, (item.message, item.attempt_id) in held) for item in settlements
        ]

    return await transact(pool, work)


async def settle_attempts(
    connection: "Link", settlements: Sequence[Settlement], *, verb: str, lapsed: bool
) -> set[tuple[UUID, UUID]]:
    """Write the verdicts, and what follows; returns the (message, attempt) pairs that still held.

    With `lapsed` only attempts whose lease is over are settled: that is the sweep.
    """
    await lock_for_messages(connection, [item.message for item in settlements])
    verdicts = [item.verdict for item in settlements]
    rows = await SQL["settle_messages"].rows(
        connection,
        messages=[item.message for item in settlements],
        attempt_ids=[item.attempt_id for item in settlements],
        states=[verdict.state for verdict in verdicts],
        delays=[verdict.delay_seconds for verdict in verdicts],
        counted=[verdict.counted for verdict in verdicts],
        may_have_arrived=[verdict.may_have_arrived for verdict in verdicts],
        reasons=[verdict.reason for verdict in verdicts],
        receipts=[verdict.receipt for verdict in verdicts],
        statuses=[verdict.answer.status if verdict.answer else None for verdict in verdicts],
        excerpts=[verdict.answer.excerpt if verdict.answer else None for verdict in verdicts],
        lapsed=lapsed,
        verb=verb,
    )
    await follow_up(connection, [(row["id"], row["turn"], row["state"]) for row in rows])
    return {(row["id"], row["attempt_id"]) for row in rows}
