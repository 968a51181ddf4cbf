"""What a token has sealed before: its set, as it was recorded first, with the states of now.

Whatever a reviewer made of the set, the token is told of what itself has sealed.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.domain.model import AlreadySealed, Hold, Sealed, SealedFollowUp, SealedMessage, SealRequest
from app.domain.seal import spell
from app.engine.fence import find_attempts
from app.engine.follow_ups import SetOf, find_follow_ups
from app.engine.hold import find_holds, hold_view
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class Before:
    """What was sealed: messages and holds by the number of their seal, follow-ups by that of the live one."""

    messages: dict[SetOf, list[SealedMessage]]
    follow_ups: dict[SetOf, list[SealedFollowUp]]
    holds: dict[SetOf, Hold]


async def find_seal(pool: "Pool", request: SealRequest) -> Sealed | AlreadySealed | None:
    """What this token has sealed before, as `seal` would answer it; None if it has sealed nothing."""
    pair = (request.turn, request.token)

    async def work(connection: "Link") -> Sealed | AlreadySealed | None:
        found = await find_attempts(connection, [pair])
        if pair not in found or found[pair]["ended"] != "sealed":
            return None
        before = await sealed_before(connection, [found[pair]])
        return answer_again(request, found[pair], before)

    return await transact(pool, work, explicit=False)


async def sealed_before(connection: "Link", attempts: "Sequence[Record]") -> Before:
    """What was sealed by those of these attempts that ended with it."""
    rows = [row for row in attempts if row["ended"] == "sealed"]
    before = Before({}, {}, {})
    if not rows:
        return before
    before.messages.update(
        await find_messages(connection, [(row["turn"], row["seal"]) for row in rows])
    )
    later = [(row["turn"], row["follow_ups_seal"]) for row in rows]
    before.follow_ups.update(await find_follow_ups(connection, later))
    held = {row["turn"] for row in rows if row["was_held"]}
    for turn, holds in (await find_holds(connection, held)).items() if held else ():
        before.holds.update({(turn, hold["seal"]): hold_view(hold) for hold in holds})
    return before


async def find_messages(
    connection: "Link", sets: Sequence[SetOf]
) -> dict[SetOf, list[SealedMessage]]:
    """The messages of these sets as they are, in their order."""
    found: dict[SetOf, list[SealedMessage]] = defaultdict(list)
    rows = await SQL["find_sealed"].rows(
        connection, turns=[turn for turn, _ in sets], seals=[seal for _, seal in sets]
    )
    for row in rows:
        message = SealedMessage(row["id"], row["key"], row["state"])
        found[row["turn"], row["seal"]].append(message)
    return found


def answer_again(request: SealRequest, row: "Record", before: Before) -> Sealed | AlreadySealed:
    """The first answer, to whoever asks for the same again."""
    digest = spell(row["payload_hash"])
    if row["request_hash"] != request.request_hash:
        return AlreadySealed(digest)
    return Sealed(
        row["state"],
        digest,
        before.messages.get((row["turn"], row["seal"]), []),
        repeated=True,
        follow_ups=before.follow_ups.get((row["turn"], row["follow_ups_seal"]), ()),
        hold=before.holds.get((row["turn"], row["seal"])),
        seal=row["seal"],
    )
