"""What the database holds at the end of a run, in the words of the API: read in one snapshot, and kept as JSON."""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg

from app.domain.ids import INBOUND_PREFIX, MESSAGE_PREFIX, TURN_PREFIX, format_id
from tests.history.log import Moment, encode, now
from tests.history.waiting_rows import QUERIES as WAITING
from tests.history.waiting_rows import KeptFollowUp, KeptHold, KeptSignal, KeptWait

if TYPE_CHECKING:
    from asyncpg import Record

FILE = "rows.json"

# On a busy machine one reading of two clocks may take long: the quickest of several says best what each said.
READINGS_MAX = 20
READING_SECONDS = 0.004

# Times are seconds since 1970 on the database's clock, ids and tokens as the API spells them.


@dataclass(frozen=True, slots=True)
class KeptKey:
    """A known idempotency key, and what it stands for."""

    scope: str
    key: str
    inbound: str
    turn: str


@dataclass(frozen=True, slots=True)
class KeptInbound:
    id: str
    turn: str
    conversation: str | None
    content_type: str
    body_base64: str
    received_at: float


@dataclass(frozen=True, slots=True)
class KeptTurn:
    """`lane_seq` is its place in its lane, `seal` the number of its last set, `about` the turn that it tells of.

    Until `deadline_at` it waits for somebody. `root` is the turn that its chain of follow-ups began with.
    """

    id: str
    queue: str
    conversation: str | None
    lane_seq: int | None
    state: str
    attempt: int
    attempts_used: int
    due_at: float
    lease_expires_at: float | None
    payload_hash: str | None
    seal: int = 1
    deadline_at: float | None = None
    about: str | None = None
    root: str | None = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class KeptAttempt:
    """One claim of a turn."""

    turn: str
    number: int
    token: str
    ended: str | None


@dataclass(frozen=True, slots=True)
class KeptMessage:
    """`place` is where it stands in its lane of deliveries; without a conversation its set is the lane.

    A `strict` one stands behind all earlier ones of its set as well.
    """

    id: str
    turn: str
    seal: int
    position: int
    queue: str
    conversation: str | None
    destination: str
    place: int | None
    strict: bool
    state: str
    key: str
    body_base64: str
    content_type: str
    attempts: int
    attempts_used: int
    due_at: float
    blocked_by: str | None
    lease_expires_at: float | None
    recipient: str | None = None
    headers: str = "{}"
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Event:
    """One committed move. `id` rises with the commits of one turn's, one lane's and one message's moves.

    `step` is what happened of a resend, which moves nothing: asked, begun or ended.
    """

    id: int
    at: float
    turn: str
    message: str | None
    verb: str
    from_state: str | None
    to_state: str
    attempt: int | None
    step: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """The database at the end. `stuck_sessions` are backends that hold a transaction open and do nothing."""

    moment: Moment
    keys: tuple[KeptKey, ...]
    inbound: tuple[KeptInbound, ...]
    turns: tuple[KeptTurn, ...]
    attempts: tuple[KeptAttempt, ...]
    messages: tuple[KeptMessage, ...]
    events: tuple[Event, ...]
    holds: tuple[KeptHold, ...] = ()
    waits: tuple[KeptWait, ...] = ()
    signals: tuple[KeptSignal, ...] = ()
    follow_ups: tuple[KeptFollowUp, ...] = ()
    stuck_sessions: int = 0


_EPOCH = "extract(epoch from {})::double precision as {}"


def _times(prefix: str, *names: str) -> str:
    return ", ".join(_EPOCH.format(prefix + name, name) for name in names)


QUERIES: dict[str, tuple[type[Any], str]] = {
    "keys": (KeptKey, "select scope, key, inbound, turn from sink.idempotency_key"),
    "inbound": (
        KeptInbound,
        f"""select id, turn, conversation, content_type, body as body_base64, {_times("", "received_at")}
        from sink.inbound order by id""",
    ),
    "turns": (
        KeptTurn,
        f"""select id, queue, conversation, lane_seq, state, attempt, attempts_used, seal, about, root, depth,
            {_times("", "due_at", "lease_expires_at", "deadline_at")},
            'sha256:' || encode(payload_hash, 'hex') as payload_hash
        from sink.turn order by id""",
    ),
    "attempts": (
        KeptAttempt,
        "select turn, number, token, ended from sink.attempt order by turn, number",
    ),
    "messages": (
        KeptMessage,
        f"""select o.id, o.turn, o.seal, o.position, o.queue, o.conversation, o.destination, o.place, o.strict, o.state,
            p.key, p.body as body_base64, p.content_type, o.attempts, o.attempts_used, o.blocked_by as blocked_by,
            p.recipient, p.headers::text as headers, o.delay_seconds,
            {_times("o.", "due_at", "lease_expires_at")}
        from sink.outbox as o inner join sink.outbox_payload as p on p.message = o.id
        order by o.turn, o.seal, o.position""",
    ),
    "events": (
        Event,
        f"""select id, turn, message, verb, from_state, to_state, attempt, detail ->> 'step' as step, reason,
            {_times("", "at")}
        from sink.event order by id""",
    ),
    **WAITING,
}
# A session is given time to end its transaction by itself.
_STUCK = """
    select count(*) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and state like 'idle in transaction%'
        and state_change < clock_timestamp() - interval '1 second'
"""


async def read_database(url: str) -> Rows:
    """Read everything, as whoever may read the tables of the service."""
    connection = await asyncpg.connect(url)
    try:
        moment = await read_moment(connection)
        stuck = await connection.fetchval(_STUCK)
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            found = {
                name: tuple(_kept(kind, row) for row in await connection.fetch(query))
                for name, (kind, query) in QUERIES.items()
            }
        return Rows(moment, **found, stuck_sessions=stuck)
    finally:
        await connection.close()


async def read_moment(connection: Any) -> Moment:
    """What the database's clock says now. Write it down again each time that clock was moved."""
    best: tuple[float, Moment] | None = None
    for _ in range(READINGS_MAX):
        before = now()
        said = await connection.fetchval("select extract(epoch from sink.now())::double precision")
        after = now()
        if best is None or after - before < best[0]:
            best = (after - before, Moment((before + after) / 2, said))
        if best[0] < READING_SECONDS:
            break
    assert best is not None
    return best[1]


def _inbound(value: UUID) -> str:
    return format_id(INBOUND_PREFIX, value)


def _turn(value: UUID) -> str:
    return format_id(TURN_PREFIX, value)


def _message(value: UUID) -> str:
    return format_id(MESSAGE_PREFIX, value)


_SPELLED: dict[str, Callable[[Any], str]] = {
    "inbound": _inbound,
    "turn": _turn,
    "child": _turn,
    "about": _turn,
    "root": _turn,
    "message": _message,
    "blocked_by": _message,
    "token": str,
    "body_base64": encode,
}
_IDS: dict[type[Any], Callable[[UUID], str]] = {
    KeptInbound: _inbound,
    KeptTurn: _turn,
    KeptMessage: _message,
}


def _kept(kind: type[Any], row: "Record") -> Any:
    fields = {
        name: value if value is None or name not in _SPELLED else _SPELLED[name](value)
        for name, value in row.items()
    }
    if kind in _IDS:
        fields["id"] = _IDS[kind](row["id"])
    return kind(**fields)


def write_rows(rows: Rows, folder: Path) -> None:
    """Keep them beside the logs."""
    (folder / FILE).write_text(json.dumps(dataclasses.asdict(rows)), encoding="utf-8")


def read_rows(folder: Path) -> Rows:
    """Read what `write_rows` kept."""
    kept = json.loads((folder / FILE).read_text(encoding="utf-8"))
    found = {
        name: tuple(kind(**fields) for fields in kept[name]) for name, (kind, _) in QUERIES.items()
    }
    return Rows(Moment(**kept["moment"]), **found, stuck_sessions=kept["stuck_sessions"])
