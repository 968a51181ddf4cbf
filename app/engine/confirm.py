"""Confirm: the settling of attempts that have all delivered, which nearly every batch is.

What `settle` does in a statement for each step is one statement here, since nothing has to be decided: nothing is
given back, nothing stops, and a breaker that is closed stays so.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.breaker import Sign
from app.domain.model import DeliveryPolicy, Settled, Settlement, TurnMove
from app.engine.breaker import Ended, end_attempts
from app.engine.statements import load

if TYPE_CHECKING:
    from app.engine.statements import Link

SQL = load(__file__)


def all_confirmed(settlements: Sequence[Settlement]) -> bool:
    """Whether each says that its message was delivered, and nothing of when to come back."""
    return all(
        item.verdict.state == "delivered"
        and item.verdict.sign is Sign.WORKS
        and item.verdict.counted
        and not item.verdict.may_have_arrived
        and not item.verdict.hold_seconds
        for item in settlements
    )


async def confirm_attempts(
    connection: "Link",
    settlements: Sequence[Settlement],
    *,
    policies: Mapping[str, DeliveryPolicy],
) -> dict[tuple[UUID, UUID], Settled]:
    """Write that these were delivered, and what follows; as `settle_attempts`, for what `all_confirmed` tells of.

    Its caller has locked their turns and delivery lanes.
    """
    verdicts = [item.verdict for item in settlements]
    answers = [verdict.answer for verdict in verdicts]
    rows = await SQL["confirm_messages"].rows(
        connection,
        messages=[item.message for item in settlements],
        attempt_ids=[item.attempt_id for item in settlements],
        reasons=[verdict.reason for verdict in verdicts],
        receipts=[verdict.receipt for verdict in verdicts],
        statuses=[answer.status if answer else None for answer in answers],
        excerpts=[answer.excerpt if answer else None for answer in answers],
    )
    held = [row for row in rows if row["id"]]
    turns = {
        row["turn"]: TurnMove(
            row["turn"], row["queue"], row["state"], row["age_seconds"], row["sealed_seconds"]
        )
        for row in rows
        if row["state"]
    }
    counted = {row["destination"] for row in rows if not row["turn"]}
    uncounted = [
        Ended(row["destination"], Sign.WORKS) for row in held if row["destination"] not in counted
    ]
    moves = await end_attempts(connection, uncounted, policies=policies)
    return {
        (row["id"], row["attempt_id"]): Settled(
            row["id"],
            held=True,
            breaker=moves.get(row["destination"]),
            turn=turns.get(row["turn"]),
        )
        for row in held
    }
