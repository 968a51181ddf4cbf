"""The real engine over a real database, driven from a synchronous machine: each call may lose its connection."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from uuid import UUID

import asyncpg

from app.domain.ids import MESSAGE_PREFIX, IdFactory, format_id
from app.engine.database import open_pool
from app.engine.transaction import DatabaseUnavailable
from tests.crash.scene import BROKEN, DIRTY_MAX, EPOCH, TABLES, Still, StoppedClock
from tests.crash.watch import Point, WatchedPool, statement_names
from tests.database import options_for
from tests.engine.stories import QUEUE, Sink
from tests.model.breaker_rules import sending
from tests.model.policies import DELIVERY_POLICIES, TURN_POLICY
from tests.model.world import Message, Standing, Turn, World

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link
    from tests.database import Admin

T = TypeVar("T")

# The connection is lost before the commit is sent, or behind it and before its answer is read.
Crash = Literal["", "before", "after"]

SECONDS = f"extract(epoch from {{}} - timestamptz '{EPOCH}')::double precision"
TURNS = f"""
    select id, conversation, state, {SECONDS.format("created_at")},
        case when due_at = 'infinity' then 'infinity' else {SECONDS.format("due_at")} end, priority, lane_seq,
        inbound_count, attempt, attempts_used, releases, {SECONDS.format("lease_expires_at")},
        {SECONDS.format("deadline_at")}, seal, payload_hash is not null, root, depth, revisions, parks
    from sink.turn order by id
"""
MESSAGES = f"""
    select id, turn, position, conversation, destination, place, strict, state, blocked_by, left_lane, attempts,
        attempts_used, may_have_arrived, hold_unknown, cancel_asked, {SECONDS.format("lease_expires_at")},
        case when state = 'pending' then {SECONDS.format("due_at")} end, seal, p.key
    from sink.outbox as o inner join sink.outbox_payload as p on p.message = o.id order by id
"""
HOLDS = """
    select turn, seal, attempt, 'sha256:' || encode(payload_hash, 'hex'), on_deadline, reminders, decision,
        'sha256:' || encode(new_hash, 'hex')
    from sink.hold order by turn, seal
"""
WAITS = "select turn, attempt, name, payload_hash, ended from sink.wait order by turn, attempt"
TOLD = (
    "select turn, name, number, dropped_at is not null from sink.signal order by turn, name, number"
)
LATER = (
    "select turn, seal, position, state, child from sink.follow_up order by turn, seal, position"
)
# A lane that nobody has entered yet is as good as none.
LANES = "select conversation, tail, holder from sink.lane where tail > 0 order by conversation"
STANDING = f"""
    select name, sending, breaker, failures, openings, {SECONDS.format("probe_at")}, {SECONDS.format("tokens_at")}
    from sink.destination order by name
"""
PLACES = "select conversation, destination, tail from sink.delivery_lane order by 1, 2"

Rows = dict[str, list[tuple[object, ...]]]


@dataclass(slots=True)
class Counting:
    """Ids in the order in which they are made, so that a model can foresee them."""

    made: int = 0

    def new(self) -> UUID:
        """The next one."""
        self.made += 1
        return UUID(int=self.made)

    def ahead(self, count: int) -> UUID:
        """The one that is made after so many others."""
        return UUID(int=self.made + count)


@dataclass(slots=True)
class _Loses:
    """Loses the connection around the point that commits what was written."""

    crash: Crash

    async def before(self, point: Point, connection: "Link") -> None:
        if point.commits and self.crash == "before":
            connection.terminate()

    async def after(self, point: Point, connection: "Link") -> None:
        if point.commits and self.crash == "after":
            connection.terminate()
            raise asyncpg.ConnectionDoesNotExistError("cut")


@dataclass(slots=True)
class Stage:
    """The verbs, the clock and the rows."""

    runner: asyncio.Runner
    admin: "Admin"
    clock: StoppedClock
    sink: Sink
    ids: Counting
    closing: Callable[[], Coroutine[Any, Any, None]]
    names: dict[str, str] = field(default_factory=statement_names)
    played: int = 0

    @classmethod
    def open(cls, runner: asyncio.Runner, url: str) -> "Stage":
        """A stage over a migrated database, in whose loop everything happens."""
        return runner.run(cls._open(runner, url))

    @classmethod
    async def _open(cls, runner: asyncio.Runner, url: str) -> "Stage":
        admin = await asyncpg.connect(url)
        clock = StoppedClock(admin)
        await clock.stop()
        opened = open_pool(options_for(url, pool_max=1), application_name="sinksweep-test")
        ids = Counting()
        sink = Sink(
            await opened.__aenter__(),
            cast("IdFactory", ids),
            Still(),
            {QUEUE: TURN_POLICY},
            DELIVERY_POLICIES,
        )

        async def close() -> None:
            await opened.__aexit__(None, None, None)
            await admin.close()

        return cls(runner, admin, clock, sink, ids, close)

    def close(self) -> None:
        """Let go of the database."""
        self.runner.run(self.closing())

    def clear(self) -> None:
        """As if nothing had happened."""
        self.played += 1
        how = "delete from {}" if self.played % DIRTY_MAX else "truncate {}"
        self.runner.run(
            self.admin.execute(";".join(how.format(f"sink.{table}") for table in TABLES))
        )
        self.runner.run(
            self.admin.execute(
                "insert into sink.destination (name) select unnest($1::text[])",
                list(DELIVERY_POLICIES),
            )
        )
        self.runner.run(self.clock.at(0.0))
        self.ids.made = 0

    def call(self, verb: Callable[[Sink], Awaitable[T]], *, crash: Crash) -> tuple[T | None, bool]:
        """The answer of a verb, and whether it came: not when the connection was lost at its commit."""
        watched = WatchedPool(self.sink.pool, _Loses(crash), self.names)
        sink = replace(self.sink, pool=cast("Pool", watched))

        async def made() -> tuple[T | None, bool]:
            try:
                return await verb(sink), True
            except DatabaseUnavailable:
                assert crash
                return None, False

        return self.runner.run(made())

    def move(self, seconds: float) -> None:
        """Time goes on."""
        self.runner.run(self.clock.move(seconds))

    def broken(self) -> list[str]:
        """The invariants that do not hold, with what breaks them."""
        return [f"{row[0]}: {row[1]}" for row in self.runner.run(self.admin.fetch(BROKEN))]

    def tokens(self) -> dict[UUID, tuple[UUID, int]]:
        """The turn and the number of each attempt, by its token."""
        rows = self.runner.run(self.admin.fetch("select token, turn, number from sink.attempt"))
        return {row[0]: (row[1], row[2]) for row in rows}

    def rows(self) -> Rows:
        """What the model foresees, as it is."""
        return self.runner.run(self._rows())

    async def _rows(self) -> Rows:
        queries = {"turns": TURNS, "messages": MESSAGES, "lanes": LANES, "places": PLACES}
        queries |= {"standing": STANDING, "holds": HOLDS, "waits": WAITS, "told": TOLD}
        queries["later"] = LATER
        return {
            name: [tuple(row) for row in await self.admin.fetch(query)]
            for name, query in queries.items()
        }


def foreseen(world: World) -> Rows:
    """What the model foresees, in the form of the rows."""
    return {
        "turns": [_turn(turn) for turn in sorted(world.turns.values(), key=lambda t: t.id)],
        "messages": [_message(m) for m in sorted(world.messages.values(), key=lambda m: m.id)],
        "lanes": [(name, lane.tail, lane.holder) for name, lane in sorted(world.lanes.items())],
        "places": [(*lane, tail) for lane, tail in sorted(world.places.items())],
        "standing": [_standing(world, name) for name in sorted(DELIVERY_POLICIES)],
        "holds": [
            (turn, h.seal, h.attempt, h.hash, h.on_deadline, h.reminders, h.decision, h.new_hash)
            for turn, holds in sorted(world.holds.items())
            for h in holds
        ],
        "waits": [
            (turn, w.attempt, w.name, w.asks, w.ended)
            for turn, waits in sorted(world.waits.items())
            for w in waits
        ],
        "told": sorted(
            (turn, one.name, one.number, one.dropped)
            for turn, told in world.told.items()
            for one in told
        ),
        "later": sorted(
            (turn, one.seal, one.position, one.state, one.child)
            for turn, later in world.later.items()
            for one in later
        ),
    }


def _standing(world: World, name: str) -> tuple[object, ...]:
    it = world.standing.get(name, Standing())
    counts = (name, sending(world, name), it.breaker, it.failures, it.openings)
    return (*counts, it.probe_at, it.asked_until)


def _turn(t: Turn) -> tuple[object, ...]:
    place = (t.id, t.conversation, t.state, t.created, t.due, t.priority, t.seq, t.inbound)
    waits = (t.deadline, t.seal, t.live, t.root, t.depth, t.revisions, t.parks)
    return (*place, t.attempt, t.used, t.releases, t.lease_until, *waits)


def _message(m: Message) -> tuple[object, ...]:
    place = (m.id, m.turn, m.position, m.conversation, m.destination, m.place, m.strict)
    story = (m.state, m.by, m.left, m.attempts, m.used, m.may, m.holds, m.stop, m.lease_until)
    due = m.due if m.state == "pending" else None
    return (*place, *story, due, m.seal, format_id(MESSAGE_PREFIX, m.key or m.id))


def differences(found: Rows, wanted: Rows) -> list[str]:
    """Row by row, what is and what should be."""
    return [
        f"{name}: is {is_}, should be {should}"
        for name, rows in found.items()
        for is_, should in itertools.zip_longest(rows, wanted[name])
        if is_ != should
    ]
