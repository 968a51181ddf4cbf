"""Earlier: what came before a take, of the few messages that something did come before.

Most are sent for the first time, have waited for nothing but their time, and answer by nobody's leave. These are not
asked about, so that what is asked of nearly every message stays short.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from app.domain.model import Slots
from app.engine.statements import load

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.statements import Link

SQL = load(__file__)

# What stands in an answer of `find_earlier`, of a message that it is not asked about; its age is that of its row.
NOTHING: Final[Mapping[str, Any]] = MappingProxyType(
    {"is_key_expired": False, "reply": None, "is_wanted": False, "first_attempted_at": None}
)


async def find_earlier(
    connection: "Link", taken: "Sequence[Record]", slots: Sequence[Slots]
) -> "dict[UUID, Record]":
    """What came before, by message; of those that have something. Part of the transaction that took them."""
    rows = [row for row in taken if row["may_have_arrived"] or row["has_stood"] or row["reply_of"]]
    if not rows:
        return {}
    key_ttls = {slot.destination: slot.key_ttl_seconds for slot in slots}
    found = await SQL["find_earlier"].rows(
        connection,
        messages=[row["id"] for row in rows],
        key_ttls=[key_ttls[row["destination"]] for row in rows],
    )
    return {row["id"]: row for row in found}
