"""Late fact: a true delivery is recorded, even by a worker that has lost its lease."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.model import Fact
from app.engine.breaker import Ended, end_attempts
from app.engine.delivery import follow_up, lock_for_messages
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


async def record_facts(pool: "Pool", facts: Sequence[Fact]) -> set[UUID]:
    """Record each delivery by its attempt; returns the messages that it made `delivered`.

    A message that is delivered already stays as it is.
    """

    async def work(connection: "Link") -> set[UUID]:
        await lock_for_messages(connection, [fact.message for fact in facts])
        rows = await SQL["record_facts"].rows(
            connection,
            messages=[fact.message for fact in facts],
            attempt_ids=[fact.attempt_id for fact in facts],
            receipts=[fact.receipt for fact in facts],
            statuses=[fact.status for fact in facts],
        )
        await follow_up(connection, [(row["id"], row["turn"], row["state"]) for row in rows])
        # It may be old, and tells nothing of the destination now.
        ended = [Ended(row["destination"]) for row in rows if row["from_state"] == "sending"]
        await end_attempts(connection, ended, policies={})
        return {row["id"] for row in rows}

    return await transact(pool, work)
