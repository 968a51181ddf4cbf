"""Join: people send three short messages, not one. Inbound of a conversation share a turn that was never claimed.

Only the last turn of a lane gains inbound, under the lane's lock and its own: a claim skips it meanwhile, and one that
came first has made it a turn that nobody joins. The claim reads its inbound in a later statement, so it misses none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.model import Accepted, Arrival, Joining
from app.engine.arrivals import contents, keys_of
from app.engine.statements import load

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.statements import Link

SQL = load(__file__)

_Lane = tuple[str, str]


@dataclass(slots=True)
class _Gathering:
    """A turn that gathers inbound: one that is there, or one that this call adds (with a `place`, or held up)."""

    turn: UUID
    joining: Joining
    before_count: int = 0
    before_bytes: int = 0
    place: int | None = None
    state: str = "queued"
    held: bool = False
    arrivals: list[int] = field(default_factory=list)
    bytes: int = 0
    priority: int = -100

    def has_room(self, arrival: Arrival) -> bool:
        """Whether one more fits. The first always does."""
        count = self.before_count + len(self.arrivals)
        size = self.before_bytes + self.bytes + len(arrival.body)
        return count == 0 or (count < self.joining.inbound_max and size <= self.joining.bytes_max)

    def add(self, position: int, arrival: Arrival) -> None:
        """One more inbound."""
        self.arrivals.append(position)
        self.bytes += len(arrival.body)
        self.priority = max(self.priority, arrival.priority)


async def accept_joining(
    connection: "Link",
    arrivals: Sequence[Arrival],
    minted: Sequence[tuple[UUID, UUID]],
    *,
    key_seconds: float,
) -> list[Accepted | None]:
    """Accept arrivals that may all join, in order, inside the caller's transaction; None where the key was known.

    `minted` are ids for the inbound and, where it needs one, the turn of each arrival.
    """
    fresh = await _fresh(connection, arrivals, minted, key_seconds=key_seconds)
    if not fresh:
        return [None] * len(arrivals)
    held = [n for n, row in fresh.items() if row["is_held"]]
    gatherings = [_alone(arrivals[n], n, minted[n][1]) for n in held]
    free = [n for n in fresh if n not in held]
    if free:
        gatherings += await _gather(connection, arrivals, minted, free)
    await _write(connection, arrivals, minted, gatherings, key_seconds=key_seconds)
    accepted: list[Accepted | None] = [None] * len(arrivals)
    for gathering in gatherings:
        for n in gathering.arrivals:
            accepted[n] = Accepted(
                inbound=minted[n][0],
                turn=gathering.turn,
                state=gathering.state,
                duplicate=False,
                same_body=True,
                key_expires_at=fresh[n]["expires_at"],
            )
    return accepted


async def _fresh(
    connection: "Link",
    arrivals: Sequence[Arrival],
    minted: Sequence[tuple[UUID, UUID]],
    *,
    key_seconds: float,
) -> "dict[int, Record]":
    rows = await SQL["add_keys"].rows(
        connection,
        numbers=list(range(1, len(arrivals) + 1)),
        scopes=[arrival.scope for arrival in arrivals],
        body_hashes=[arrival.body_hash for arrival in arrivals],
        inbounds=[inbound for inbound, _ in minted],
        turns=[turn for _, turn in minted],
        sources=[arrival.source for arrival in arrivals],
        key_seconds=key_seconds,
        **keys_of(arrivals),
    )
    positions = {inbound: n for n, (inbound, _) in enumerate(minted)}
    return dict(sorted(((positions[row["inbound"]], row) for row in rows), key=itemgetter(0)))


async def _gather(
    connection: "Link",
    arrivals: Sequence[Arrival],
    minted: Sequence[tuple[UUID, UUID]],
    fresh: Sequence[int],
) -> list[_Gathering]:
    """Decide, under the locks on lanes and last turns, which turn each inbound belongs to."""
    names = {
        "queues": [arrivals[n].queue for n in fresh],
        "conversations": [arrivals[n].conversation for n in fresh],
    }
    lanes = {_lane(row): row for row in await SQL["hold_lanes"].rows(connection, **names)}
    last = {_lane(row): row for row in await SQL["hold_joinable"].rows(connection, **names)}
    open_: dict[_Lane, _Gathering] = {}
    tails = {lane: row["tail"] for lane, row in lanes.items()}
    taken = {lane for lane, row in lanes.items() if row["holder"] is not None}
    gatherings: list[_Gathering] = []
    for n in fresh:
        arrival = arrivals[n]
        joining = _joining(arrival)
        lane = (arrival.queue, arrival.conversation or "")
        gathering = open_.get(lane)
        if gathering is None and lane in last:
            gathering = _existing(last[lane], joining)
            gatherings.append(gathering)
        if gathering is None or not gathering.has_room(arrival):
            tails[lane] += 1
            state = "waiting" if lane in taken else "queued"
            taken.add(lane)
            gathering = _Gathering(minted[n][1], joining, place=tails[lane], state=state)
            gatherings.append(gathering)
        gathering.add(n, arrival)
        open_[lane] = gathering
    return [gathering for gathering in gatherings if gathering.arrivals]


def _alone(arrival: Arrival, position: int, turn: UUID) -> _Gathering:
    """What a paused source holds up joins nothing."""
    gathering = _Gathering(turn, _joining(arrival), state="scheduled", held=True)
    gathering.add(position, arrival)
    return gathering


def _joining(arrival: Arrival) -> Joining:
    if arrival.joining is None or arrival.conversation is None:
        message = "only what may join is accepted here"
        raise ValueError(message)
    return arrival.joining


def _existing(row: "Record", joining: Joining) -> _Gathering:
    return _Gathering(
        row["id"], joining, row["inbound_count"], row["input_bytes"], state=row["state"]
    )


def _lane(row: "Mapping[str, str] | Record") -> _Lane:
    return row["queue"], row["conversation"]


async def _write(
    connection: "Link",
    arrivals: Sequence[Arrival],
    minted: Sequence[tuple[UUID, UUID]],
    gatherings: Sequence[_Gathering],
    *,
    key_seconds: float,
) -> None:
    joined = [one for one in gatherings if one.place is None and not one.held]
    if joined:
        await SQL["join_turns"].run(
            connection,
            turns=[gathering.turn for gathering in joined],
            counts=[len(gathering.arrivals) for gathering in joined],
            bytes=[gathering.bytes for gathering in joined],
            priorities=[gathering.priority for gathering in joined],
            quiets=[gathering.joining.quiet_seconds for gathering in joined],
            bounds=[gathering.joining.seconds_max for gathering in joined],
        )
    added = [gathering for gathering in gatherings if gathering.place is not None]
    if added:
        first = [arrivals[gathering.arrivals[0]] for gathering in added]
        await SQL["add_turns"].run(
            connection,
            turns=[gathering.turn for gathering in added],
            queues=[arrival.queue for arrival in first],
            conversations=[arrival.conversation for arrival in first],
            places=[gathering.place for gathering in added],
            states=[gathering.state for gathering in added],
            priorities=[gathering.priority for gathering in added],
            quiets=[gathering.joining.quiet_seconds for gathering in added],
            counts=[len(gathering.arrivals) for gathering in added],
            bytes=[gathering.bytes for gathering in added],
        )
    held = [gathering for gathering in gatherings if gathering.held]
    if held:
        first = [arrivals[gathering.arrivals[0]] for gathering in held]
        await SQL["add_held"].run(
            connection,
            turns=[gathering.turn for gathering in held],
            queues=[arrival.queue for arrival in first],
            conversations=[arrival.conversation for arrival in first],
            priorities=[gathering.priority for gathering in held],
            sources=[arrival.source for arrival in first],
            bytes=[gathering.bytes for gathering in held],
        )
    placed = sorted(
        (n, gathering.turn, gathering.before_count + nth)
        for gathering in gatherings
        for nth, n in enumerate(gathering.arrivals)
    )
    await SQL["add_inbound"].run(
        connection,
        inbounds=[minted[n][0] for n, _, _ in placed],
        turns=[turn for _, turn, _ in placed],
        places=[place for _, _, place in placed],
        scopes=[arrivals[n].scope for n, _, _ in placed for _ in arrivals[n].keys],
        keys=[key for n, _, _ in placed for key in arrivals[n].keys],
        key_inbounds=[minted[n][0] for n, _, _ in placed for _ in arrivals[n].keys],
        key_seconds=key_seconds,
        **contents([arrivals[n] for n, _, _ in placed]),
    )
