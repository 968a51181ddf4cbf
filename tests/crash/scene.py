"""Where crashes are played: a database that is emptied for each, a clock that stands, recovery by anybody."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from app.domain.lifecycle import TURN_ENDED
from app.domain.model import Claimed, Decided
from app.domain.seal import spell
from tests.crash.calls import ROUTES, Call
from tests.engine.held_stories import decide, deciding
from tests.engine.invariants import RULES
from tests.engine.stories import CRM, DELIVERED, Sink, draft, sealing

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.crash.watch import WatchedPool
    from tests.database import Admin

ROUNDS_MAX = 40
LAPSE_SECONDS = 61
DIRTY_MAX = 20
EPOCH = "2030-01-01 00:00:00+00"
TABLES = (
    "hold", "wait", "signal", "follow_up", "notice", "event", "resend", "outbox_payload", "outbox", "destination",
    "standstill", "delivery_lane", "claim_request", "attempt", "turn", "lane", "inbound", "idempotency_key",
    "tombstone", "pause", "operation",
)  # fmt: skip


# All invariants in one question: what does not hold, and what breaks it.
BROKEN = " union all ".join(
    f"select $rule${rule}$rule$ as rule, to_json(found)::text as found from ({query}) as found"
    for rule, query in RULES.items()
)

# Brings the rows to where the verb is to be called, and gives the call.
Trial = Callable[["Scene"], Awaitable[Call]]


class Still(random.Random):
    """Jitter that does not shake."""

    def random(self) -> float:
        """Always the least."""
        return 0.0


@dataclass(slots=True)
class StoppedClock:
    """`sink.now()` stands, for every session, until it is moved. Its time is a row, so that no plan depends on it."""

    admin: "Admin"
    seconds: float = 0.0

    async def stop(self) -> None:
        """From now on it stands."""
        await self.admin.execute(
            f"""
            create schema clock;
            create table clock.hand as select timestamptz '{EPOCH}' as at;
            grant usage on schema clock to public;
            grant select on clock.hand to public;
            create or replace function sink.now() returns timestamptz language sql stable
                as 'select at from clock.hand';
            """
        )

    async def at(self, seconds: float) -> None:
        """Put the clock so many seconds behind its epoch."""
        if seconds != self.seconds:
            self.seconds = seconds
            await self.admin.execute(
                f"update clock.hand set at = timestamptz '{EPOCH}' + interval '{seconds} seconds'"
            )

    async def move(self, seconds: float) -> None:
        """On from where it stands."""
        await self.at(self.seconds + seconds)


@dataclass(slots=True)
class Scene:
    """The verbs of a replica that does not crash, and what looks on."""

    sink: Sink
    admin: "Admin"
    clock: StoppedClock
    url: str
    confirmed: list[str] = field(default_factory=list)
    cleared: int = 0

    async def clear(self) -> None:
        """As if nothing had happened."""
        self.cleared += 1
        # Deleting is quicker, as long as not too many dead rows lie about.
        how = "delete from" if self.cleared % DIRTY_MAX else "truncate"
        await self.admin.execute(";".join(f"{how} sink.{table}" for table in TABLES))
        await self.admin.execute("insert into sink.destination (name) values ($1)", CRM)
        await self.clock.at(0.0)
        self.confirmed.clear()

    async def held(self, key: str, conversation: str | None = None) -> Claimed:
        """A turn that an agent holds, whatever else there is."""
        return await self.sink.hold(key, conversation)

    async def rest(self) -> None:
        """What agents, workers and sweeps do with nobody asking, until every turn has ended: no wedge."""
        for _ in range(ROUNDS_MAX):
            held = await self.sink.claim(50) or []
            if held:
                await self.sink.seal(
                    *(sealing(one, draft("reply", one.conversation)) for one in held)
                )
            taken = await self.sink.take()
            if taken:
                assert all(await self.sink.settle(*((one, DELIVERED) for one in taken)))
                self.confirmed += [one.key for one in taken]
            resends = await self.sink.take_resends()
            await self.sink.settle_resends(*((one, DELIVERED) for one in resends))
            told = await self.sink.escalate(routes=ROUTES)
            decided = await self.approve()
            if not held and not taken and not resends and not told and not decided:
                if await self.open_turns() == 0:
                    return
                await self.clock.move(LAPSE_SECONDS)
                await self.sink.resume("source", "api")
                await self.sink.due()
                await self.sink.due_after_pause()
                await self.sink.sweep_turns()
                await self.sink.sweep_messages()
                await self.sink.sweep_resends()
                await self.sink.wake_parked()
        message = f"{await self.open_turns()} turns do not come to rest"
        raise AssertionError(message)

    async def approve(self) -> int:
        """A person lets go whatever waits for one, and ends what cannot be let go; how much that was."""
        rows = await self.admin.fetch(
            "select id, payload_hash from sink.turn where state in ('held', 'escalated') order by lane_seq"
        )
        shown = [(row[0], spell(row[1])) for row in rows]
        outcomes = await decide(self.sink, *(deciding(*one) for one in shown))
        for one, outcome in zip(shown, outcomes, strict=True):
            if not isinstance(outcome, Decided):
                await decide(self.sink, deciding(*one, "reject"))
        return len(rows)

    async def open_turns(self) -> int:
        """How many turns have not ended."""
        count: int = await self.admin.fetchval(
            "select count(*) from sink.turn where not state = any($1::text[])", list(TURN_ENDED)
        )
        return count

    def with_pool(self, pool: "Pool | WatchedPool") -> Sink:
        """The verbs over another pool."""
        return replace(self.sink, pool=cast("Pool", pool))
