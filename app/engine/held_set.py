"""Held sets, read whole and checked against what was sealed: what does not match is never let go."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.seal import follow_up_hash, payload_hash
from app.engine.follow_ups import OWN_SCOPE
from app.engine.message_set import Standing
from app.engine.statements import load
from app.engine.take import intact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.statements import Link

SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class HeldSet:
    """A set that waits: its messages and what it asks for later, in their order, as rows with their payloads.

    `payload_hash` is what was shown of it, `attempt` what sealed it, in strict order or not.
    """

    turn: UUID
    queue: str
    attempt: int
    strict: bool
    payload_hash: bytes
    messages: "list[Record]" = field(default_factory=list)
    follow_ups: "list[Record]" = field(default_factory=list)

    @property
    def standing(self) -> list[Standing]:
        """Its messages as they stand in the set."""
        return [
            self.stand(row["id"], row["conversation"], row["destination"]) for row in self.messages
        ]

    def stand(self, message: UUID, conversation: str | None, destination: str) -> Standing:
        """A message as it would stand in this set."""
        return Standing(message, self.turn, self.queue, conversation, destination, self.strict)

    def hash_with(self, messages: Sequence[bytes]) -> bytes:
        """What binds these messages and its follow-ups to its turn and attempt."""
        return payload_hash(
            turn=self.turn,
            attempt=self.attempt,
            order="strict" if self.strict else None,
            messages=messages,
            follow_ups=[row["hash"] for row in self.follow_ups],
        )

    @property
    def is_intact(self) -> bool:
        """Whether every row says what was sealed, and all of it is there."""
        return (
            all(intact(row) for row in self.messages)
            and all(_as_asked(row) == row["hash"] for row in self.follow_ups)
            and self.hash_with([row["hash"] for row in self.messages]) == self.payload_hash
        )


async def read_held_sets(connection: "Link", turns: Sequence[UUID]) -> dict[UUID, HeldSet]:
    """The sets that these turns wait with, inside a transaction that holds their locks."""
    found = {
        row["turn"]: HeldSet(**dict(row))
        for row in await SQL["read_held_sets"].rows(connection, turns=list(turns))
    }
    for row in await SQL["read_held_messages"].rows(connection, turns=list(found)):
        found[row["turn"]].messages.append(row)
    for row in await SQL["read_held_follow_ups"].rows(connection, turns=list(found)):
        found[row["turn"]].follow_ups.append(row)
    return found


def _as_asked(row: "Record") -> bytes:
    return follow_up_hash(
        queue=row["queue"],
        conversation=row["conversation"],
        key=None if row["scope"] == OWN_SCOPE else row["key"],
        content_type=row["content_type"],
        delay_seconds=row["delay_seconds"],
        not_before=row["not_before"],
        body=row["body"],
    )
