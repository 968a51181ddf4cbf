"""Renew: restore the lease of a turn for whoever still holds it."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.domain.model import LeaseLost, NoSuchTurn, Renewal, Renewed
from app.engine.fence import why_lost
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

USAGE_FIELDS_MAX = 20

Outcome = Renewed | LeaseLost | NoSuchTurn


async def renew(pool: "Pool", renewals: Sequence[Renewal]) -> list[Outcome]:
    """Renew each lease whose token still holds; one outcome each, in order."""
    told = [renewal for renewal in renewals if renewal.usage]

    async def work(connection: "Link") -> list[Outcome]:
        rows = await SQL["renew_leases"].rows(
            connection,
            turns=[renewal.turn for renewal in renewals],
            tokens=[renewal.token for renewal in renewals],
        )
        held = {
            (row["id"], row["token"]): Renewed(row["expires_in_seconds"], row["newer_inbound"])
            for row in rows
        }
        await _record_usage(connection, [r for r in told if (r.turn, r.token) in held])
        lost = [(r.turn, r.token) for r in renewals if (r.turn, r.token) not in held]
        reasons = await why_lost(connection, lost) if lost else {}
        return [
            held[renewal.turn, renewal.token]
            if (renewal.turn, renewal.token) in held
            else reasons[renewal.turn, renewal.token]
            for renewal in renewals
        ]

    # Without a usage there is one statement that writes, its own transaction.
    return await transact(pool, work, explicit=bool(told))


async def _record_usage(connection: "Link", told: Sequence[Renewal]) -> None:
    if told:
        await SQL["record_usage"].run(
            connection,
            turns=[renewal.turn for renewal in told],
            tokens=[renewal.token for renewal in told],
            usages=[
                json.dumps({name: str(value) for name, value in (renewal.usage or {}).items()})
                for renewal in told
            ],
            fields_max=USAGE_FIELDS_MAX,
        )
