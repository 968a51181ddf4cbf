"""A sealed set, whole: everything of one seal that leaves, or would have left, byte for byte."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.message import read_parts
from app.domain.model import FollowUpView
from app.engine.inspect import MessageView, message_view
from app.engine.standing import HeldSeal, follow_up_view, hold_of
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class SetMessage:
    """A message of a set with everything that its hash covers."""

    message: MessageView
    headers: Mapping[str, str]
    address: Mapping[str, str]
    delay_seconds: float
    body: bytes


@dataclass(frozen=True, slots=True)
class SetFollowUp:
    """A follow-up of a set. Once it has come to be, its body is its inbound's, and None here."""

    follow_up: FollowUpView
    content_type: str
    body: bytes | None


@dataclass(frozen=True, slots=True)
class SealedSet:
    """What a turn sealed under a number. It is live unless it was revised or edited away."""

    turn: UUID
    queue: str
    conversation: str | None
    state: str
    seal: int
    is_live: bool
    is_strict: bool
    payload_hash: bytes
    hold: HeldSeal | None
    messages: Sequence[SetMessage]
    follow_ups: Sequence[SetFollowUp]


async def find_set(pool: "Pool", turn: UUID, seal: int | None = None) -> SealedSet | None:
    """One set of a turn, without a number its last one; None if there is no such turn, or no such set."""

    async def work(connection: "Link") -> SealedSet | None:
        for row in await SQL["find_seal"].rows(connection, turn=turn, seal=seal):
            asked = {"turn": turn, "seal": row["seal"]}
            messages = await SQL["find_set_messages"].rows(connection, **asked)
            later = await SQL["find_set_follow_ups"].rows(connection, **asked)
            return SealedSet(
                turn=turn,
                queue=row["queue"],
                conversation=row["conversation"],
                state=row["state"],
                seal=row["seal"],
                is_live=row["is_live"],
                is_strict=any(message["strict"] for message in messages),
                payload_hash=row["payload_hash"],
                hold=hold_of(row),
                messages=[_message(message) for message in messages],
                follow_ups=[
                    SetFollowUp(follow_up_view(one), one["content_type"], one["body"])
                    for one in later
                ],
            )
        return None

    # What a seal said never changes: it is shown as its hash covers it, whatever is decided meanwhile.
    return await transact(pool, work, explicit=False)


def _message(row: "Record") -> SetMessage:
    return SetMessage(
        message=message_view(row),
        headers=json.loads(row["headers"]),
        address=read_parts(row["address"]),
        delay_seconds=row["delay_seconds"],
        body=row["body"],
    )
