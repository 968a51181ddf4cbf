"""Settle: write what became of delivery attempts, and all that follows for their sets, in one transaction."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.domain.model import DeliveryPolicy, Settled, Settlement
from app.engine.breaker import Ended, end_attempts
from app.engine.confirm import all_confirmed, confirm_attempts
from app.engine.delivery import follow_up, lock_for_messages
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

NO_POLICIES: Final[Mapping[str, DeliveryPolicy]] = MappingProxyType({})


async def settle(
    pool: "Pool",
    settlements: Sequence[Settlement],
    *,
    policies: Mapping[str, DeliveryPolicy] = NO_POLICIES,
) -> list[Settled]:
    """Settle each attempt whose lease still holds; one outcome each, in order.

    `policies` are those of the destinations, which say when their breakers open; without one it is the default. A
    delivery whose lease was lost is a fact all the same: tell it to `record_facts`.
    """

    async def work(connection: "Link") -> list[Settled]:
        held = await settle_attempts(
            connection, settlements, verb="settle", lapsed=False, policies=policies
        )
        pairs = [(item.message, item.attempt_id) for item in settlements]
        return [held.get(pair) or Settled(pair[0], held=False) for pair in pairs]

    return await transact(pool, work)


async def settle_attempts(
    connection: "Link",
    settlements: Sequence[Settlement],
    *,
    verb: str,
    lapsed: bool,
    policies: Mapping[str, DeliveryPolicy],
) -> dict[tuple[UUID, UUID], Settled]:
    """Write the verdicts, and what follows; returns what became of the (message, attempt) pairs that still held.

    With `lapsed` only attempts whose lease is over are settled: that is the sweep.
    """
    await lock_for_messages(connection, [item.message for item in settlements])
    if not lapsed and all_confirmed(settlements):
        return await confirm_attempts(connection, settlements, policies=policies)
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
        spare_delays=[verdict.spare_seconds for verdict in verdicts],
        spare_reasons=[verdict.spare_reason for verdict in verdicts],
        lapsed=lapsed,
        verb=verb,
    )
    moved = await follow_up(connection, [(row["id"], row["turn"], row["state"]) for row in rows])
    turns = {move.turn: move for move in moved}
    where = {(row["id"], row["attempt_id"]): row["destination"] for row in rows}
    ended = [
        Ended(where[pair], item.verdict.sign, item.verdict.hold_seconds)
        for item in settlements
        if (pair := (item.message, item.attempt_id)) in where
    ]
    moves = await end_attempts(connection, ended, policies=policies)
    return {
        (row["id"], row["attempt_id"]): Settled(
            row["id"],
            held=True,
            breaker=moves.get(row["destination"]),
            turn=turns.get(row["turn"]),
        )
        for row in rows
    }
