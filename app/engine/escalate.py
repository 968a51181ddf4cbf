"""Escalate: whoever is to be told is told, by a sealed turn that takes the place of what was noted, in one transaction.

A notice is committed with what it tells of, and goes with the turn that is made of it: no crash comes between. The turn
is delivered like any other, under a key that never changes, and nobody is ever told of it.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.domain.ids import MESSAGE_PREFIX, TURN_PREFIX, IdFactory, format_id
from app.domain.notice import (
    CONTENT_TYPE,
    Notice,
    NoticeForm,
    NoticeRoute,
    ToldMessage,
    body,
    read_kind,
)
from app.domain.seal import message_hash, payload_hash, spell, spell_place
from app.engine.statements import load
from app.engine.transaction import each_or_all, transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

# What became of a notice: a turn was made of it; nobody is configured to be told; what it asked was answered before;
# its turn is gone.
TOLD: Final = "told"
NOBODY: Final = "nobody"
ANSWERED: Final = "answered"
GONE: Final = "gone"
RESULTS: Final = (TOLD, NOBODY, ANSWERED, GONE)

# A notice that asks for something stands as long as its turn waits for it.
_ASKING: Final[Mapping[str, frozenset[str]]] = {
    "hold": frozenset({"held", "escalated"}),
    "wait": frozenset({"parked"}),
}

# Where nothing else is known of a destination.
DOCUMENT: Final = NoticeForm()

_Told = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Telling:
    """How people are told: `forms` is what a destination takes that is no program's, `public_url` begins each link."""

    forms: Mapping[str, NoticeForm] = field(default_factory=dict)
    public_url: str | None = None


@dataclass(frozen=True, slots=True)
class Escalated:
    """One pass: how many turns somebody was to be told of, what became of it by (queue, kind, result), what failed."""

    found: int
    results: Mapping[_Told, int]
    failed: tuple[Exception, ...]


async def escalate(
    pool: "Pool",
    *,
    routes: Mapping[str, NoticeRoute],
    notices_max: int,
    ids: IdFactory,
    telling: Telling,
) -> Escalated:
    """Make turns of up to `notices_max` notices of the queues in `routes`; those of all others wait.

    Where a queue names nobody, its notices are dropped, and counted.
    """

    async def find(connection: "Link") -> "list[Record]":
        return await SQL["find_notices"].rows(
            connection, queues=list(routes), notices_max=notices_max
        )

    found = await transact(pool, find, explicit=False)
    if not found:
        return Escalated(0, {}, ())

    async def tell(rows: "Sequence[Record]") -> Counter[_Told]:
        async def work(connection: "Link") -> Counter[_Told]:
            return await _tell(connection, rows, routes, ids, telling)

        return await transact(pool, work)

    done, failed = await each_or_all(found, tell)
    return Escalated(len(found), sum(done, Counter()), tuple(failed))


async def _tell(
    connection: "Link",
    firsts: "Sequence[Record]",
    routes: Mapping[str, NoticeRoute],
    ids: IdFactory,
    telling: Telling,
) -> Counter[_Told]:
    taken = await SQL["take_notices"].rows(connection, notices=[row["id"] for row in firsts])
    groups: dict[tuple[UUID, str, str], list[Record]] = defaultdict(list)
    for row in taken:
        groups[row["turn"], row["kind"], _matter(row)].append(row)
    turns = {turn for turn, _, _ in groups}
    rows = await SQL["find_told"].rows(connection, turns=sorted(turns)) if turns else []
    told = {row["id"]: row for row in rows}
    results: Counter[_Told] = Counter()
    wanted: list[tuple[str, list[Record]]] = []
    for (turn, kind, _), notices in groups.items():
        queue = notices[0]["queue"]
        destination = routes[queue].of(kind)
        result = _result(told.get(turn), kind, destination)
        results[queue, kind, result] += 1
        if result == TOLD and destination is not None:
            wanted.append((destination, notices))
    if wanted:
        messages = await _find_messages(connection, [notices for _, notices in wanted])
        drafts = [
            (destination, _notice(notices, told[notices[0]["turn"]], messages))
            for destination, notices in wanted
        ]
        await _add(connection, drafts, ids, telling)
    return results


def _matter(row: "Record") -> str:
    """What belongs together: messages of a turn, whatever each died of, and what asks for the same."""
    is_about_turn = row["kind"] == "escalation" and row["message"] is None
    return str(row["reason"]) if is_about_turn else ""


def _result(turn: "Record | None", kind: str, destination: str | None) -> str:
    if turn is None:
        return GONE
    if kind in _ASKING and turn["state"] not in _ASKING[kind]:
        return ANSWERED
    return NOBODY if destination is None else TOLD


async def _find_messages(
    connection: "Link", groups: "Sequence[Sequence[Record]]"
) -> dict[UUID, list[ToldMessage]]:
    """What each turn's notices name, and of a set that waits all that is in it, in order."""
    named = {row["message"] for notices in groups for row in notices if row["message"] is not None}
    asking = {row["turn"] for notices in groups for row in notices if row["kind"] == "hold"}
    found: dict[UUID, list[ToldMessage]] = defaultdict(list)
    if not named and not asking:
        return found
    rows = await SQL["find_told_messages"].rows(
        connection, messages=sorted(named), turns=sorted(asking)
    )
    for row in rows:
        one = ToldMessage(row["id"], row["destination"], row["state"], row["reason"])
        found[row["turn"]].append(one)
    return found


def _notice(
    notices: "Sequence[Record]", turn: "Record", found: Mapping[UUID, Sequence[ToldMessage]]
) -> Notice:
    first = notices[0]
    kind = read_kind(first["kind"])
    named = {row["message"] for row in notices}
    is_wait = kind == "wait"
    digest = turn["payload_hash"]
    return Notice(
        kind=kind,
        reason=first["reason"],
        turn=first["turn"],
        queue=first["queue"],
        conversation=turn["conversation"],
        state=turn["state"],
        payload_hash=turn["wait_hash"] if is_wait else None if digest is None else spell(digest),
        note=turn["wait_note"] if is_wait else turn["note"],
        name=turn["name"] if is_wait else None,
        deadline_at=turn["wait_until"] if is_wait else turn["deadline_at"],
        on_deadline=None if is_wait else turn["on_deadline"],
        reminders=0 if is_wait else turn["reminders"] or 0,
        messages=[one for one in found.get(first["turn"], ()) if kind == "hold" or one.id in named],
        at=first["noted_at"],
    )


async def _add(
    connection: "Link",
    drafts: Sequence[tuple[str, Notice]],
    ids: IdFactory,
    telling: Telling,
) -> None:
    turns = [ids.new() for _ in drafts]
    messages = [ids.new() for _ in drafts]
    forms = [telling.forms.get(destination, DOCUMENT) for destination, _ in drafts]
    bodies = [
        body(notice, public_url=telling.public_url, shape=form.shape)
        for (_, notice), form in zip(drafts, forms, strict=True)
    ]
    hashes = [
        _hash(destination, text, form.address)
        for (destination, _), text, form in zip(drafts, bodies, forms, strict=True)
    ]
    await SQL["add_escalations"].run(
        connection,
        turns=turns,
        abouts=[notice.turn for _, notice in drafts],
        queues=[notice.queue for _, notice in drafts],
        payload_hashes=[
            payload_hash(turn=turn, attempt=0, order=None, messages=[digest])
            for turn, digest in zip(turns, hashes, strict=True)
        ],
        messages=messages,
        destinations=[destination for destination, _ in drafts],
        keys=[format_id(MESSAGE_PREFIX, message) for message in messages],
        content_types=[CONTENT_TYPE] * len(drafts),
        bodies=bodies,
        hashes=hashes,
        addresses=[form.address for form in forms],
        kinds=[notice.kind for _, notice in drafts],
        reasons=[notice.reason for _, notice in drafts],
        told=[format_id(TURN_PREFIX, notice.turn) for _, notice in drafts],
    )


def _hash(destination: str, text: bytes, address: str | None) -> bytes:
    return message_hash(
        destination=destination,
        recipient=None,
        conversation=None,
        headers={},
        content_type=CONTENT_TYPE,
        delay_seconds=0.0,
        body=text,
        place=spell_place(address, None),
    )
