"""What is known of a run while it goes on, and the rules that must hold in its database at any moment."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import asyncpg

from tests.engine.invariants import broken
from tests.history.log import Moment, now
from tests.history.rows import read_moment
from tests.torture.approvers import Approver
from tests.torture.harm import UNREACHABLE, Done
from tests.torture.operators import Operator
from tests.torture.provider import Ledger
from tests.torture.stage import Stage

if TYPE_CHECKING:
    from tests.database import Admin

OPEN_TURNS_MAX = 100
LOOK_SECONDS = 0.5
LIFE_SECONDS_MAX = 4.0
INVARIANTS_PAUSE_SECONDS = 4.0
# A backend that is busy keeps a killed server's memory, and so no other server can start: a look must end by itself.
LOOK_TIMEOUT_SECONDS = 10
MOMENTS = 20
OPEN = "select (select count(*) from sink.turn where state <> all($1)) + (select count(*) from sink.resend)"
AT_REST = ("replied", "cancelled", "failed", "undelivered")


@dataclass(slots=True)
class Run:
    """What is known of a run while it goes on."""

    stage: Stage
    ledger: Ledger
    operators: list[Operator] = field(default_factory=list)
    approvers: list[Approver] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    open_turns: int = 0
    cut_looks: int = 0
    peace: bool = False
    began_at: float = field(default_factory=now)
    seen_alive: tuple[int, int] = (0, 0)

    def pause_seconds(self) -> float:
        """How long a provider waits before its next event: agents must be able to follow."""
        return 0.02 if self.open_turns < OPEN_TURNS_MAX else 0.5

    async def life(self) -> float:
        """Wait until something was accepted and something arrived since the last time, or for long enough.

        Returns the seconds that it took: a fault that meets nobody proves nothing.
        """
        began = time.monotonic()
        while time.monotonic() - began < LIFE_SECONDS_MAX:
            alive = (self.ledger.acknowledged, self.stage.receivers.arrivals.total())
            if all(more > before for more, before in zip(alive, self.seen_alive, strict=True)):
                self.seen_alive = alive
                break
            await asyncio.sleep(LIFE_SECONDS_MAX / 100)
        return time.monotonic() - began

    async def look(self) -> None:
        """Know how much is open, and that every rule holds at any moment. Ends by cancellation."""
        checked = time.monotonic()
        while True:
            with contextlib.suppress(*UNREACHABLE):
                async with self.admin() as admin:
                    self.open_turns = await admin.fetchval(OPEN, AT_REST, timeout=5)
                    if time.monotonic() >= checked:
                        began = time.monotonic()
                        await admin.execute(f"set statement_timeout = '{LOOK_TIMEOUT_SECONDS}s'")
                        try:
                            await self.check(admin)
                        except asyncpg.QueryCanceledError:
                            # The rest of the rules is for a later look, and all of them for the end.
                            self.cut_looks += 1
                        took = time.monotonic() - began
                        checked = time.monotonic() + max(INVARIANTS_PAUSE_SECONDS, 20 * took)
            await asyncio.sleep(LOOK_SECONDS)

    async def check(self, admin: "Admin") -> None:
        """Every rule of the database, as it is now."""
        # The tables have grown since the server last looked at them by itself.
        await admin.execute("analyze")
        for rule, rows in (await broken(admin)).items():
            self.findings.append(f"{rule}: {rows[:5]} at {now() - self.began_at:.1f} s")

    async def moment(self) -> Moment:
        """Both clocks at once: the reading, of several, that was done the fastest."""
        async with self.admin() as admin:
            readings = []
            for _ in range(MOMENTS):
                began = now()
                reading = await read_moment(admin)
                readings.append((now() - began, reading))
            return min(readings, key=lambda one: one[0])[1]

    @contextlib.asynccontextmanager
    async def admin(self) -> "AsyncIterator[Admin]":
        """A session of one's own, past all proxies."""
        connection = await asyncpg.connect(self.stage.postgres.url, timeout=5)
        try:
            yield connection
        finally:
            connection.terminate()
