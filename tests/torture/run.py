"""One run: a crowd works while faults come; then there is peace, in which everything must come to its end."""

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import asyncpg

from tests.engine.invariants import broken
from tests.history.log import Healed, Moment, Terms, Vital, now
from tests.history.rows import read_moment
from tests.torture import stage as stages
from tests.torture.harm import UNREACHABLE, Done, do
from tests.torture.judge import judge
from tests.torture.operators import Operator
from tests.torture.provider import SETTLED, Event, Ledger, Provider
from tests.torture.report import Report
from tests.torture.schedule import PAUSE_SECONDS, Fault, draw
from tests.torture.stage import Stage, open_stage

if TYPE_CHECKING:
    from tests.database import Admin

PROVIDERS_A_REPLICA = 2
OPERATORS = 3
OPEN_TURNS_MAX = 100
LOOK_SECONDS = 0.5
REST_SECONDS_MAX = 40.0
READY_SECONDS_MAX = 25.0
FRESH_SECONDS_MAX = 20.0
SLACK_SECONDS = 5.0
INVARIANTS_PAUSE_SECONDS = 4.0

OPEN = "select count(*) from sink.turn where state <> all($1)"
BUSY = 'sinksweep_pool_connections{state="busy"}'
VITALS_MAX = 30
MOMENTS = 20
AT_REST = ("replied", "cancelled", "failed", "undelivered")


@dataclass(slots=True)
class Run:
    """What is known of a run while it goes on."""

    stage: Stage
    ledger: Ledger
    operators: list[Operator] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    open_turns: int = 0
    peace: bool = False
    began_at: float = field(default_factory=now)

    def pause_seconds(self) -> float:
        """How long a provider waits before its next event: agents must be able to follow."""
        return 0.02 if self.open_turns < OPEN_TURNS_MAX else 0.5

    async def look(self) -> None:
        """Know how much is open, and that every rule holds at any moment. Ends by cancellation."""
        checked = time.monotonic()
        while True:
            with contextlib.suppress(*UNREACHABLE):
                async with self.admin() as admin:
                    self.open_turns = await admin.fetchval(OPEN, AT_REST, timeout=5)
                    if time.monotonic() >= checked:
                        began = time.monotonic()
                        await self.check(admin)
                        took = time.monotonic() - began
                        checked = time.monotonic() + max(INVARIANTS_PAUSE_SECONDS, 20 * took)
            await asyncio.sleep(LOOK_SECONDS)

    async def check(self, admin: "Admin") -> None:
        """Every rule of the database, as it is now."""
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


async def torture(
    folder: Path,
    *,
    seed: int,
    seconds: float,
    pause_seconds: tuple[float, float] = PAUSE_SECONDS,
    say: Callable[[str], None],
) -> Report:
    """Run faults for so many seconds, heal, and judge. The folder keeps every log."""
    schedule = draw(seed=seed, seconds=seconds, pause_seconds=pause_seconds)
    (folder / "schedule.txt").write_text("\n".join(map(str, schedule)) + "\n")
    async with open_stage(folder, seed=seed) as stage:
        run = Run(stage, Ledger(stage.log("providers"), stage.session, stage.key))
        with stage.log("run") as log:
            log(
                Terms(
                    turn_attempts_max=stages.TURN_ATTEMPTS_MAX,
                    releases_max=stages.RELEASES_MAX,
                    message_attempts_max=stages.MESSAGE_ATTEMPTS_MAX,
                    slack_seconds=SLACK_SECONDS,
                )
            )
            log(await run.moment())
            say(f"{len(schedule)} faults in {seconds:g} s, seed {seed}, logs in {folder}")
            await _work(run, schedule, seed=seed, say=say)
            say("healed")
            log(Healed(now(), tuple(stage.urls), tuple(stage.urls)))
            await _come_to_rest(run)
            for agent in stage.agents:
                agent.kill()
            for url in stage.urls:
                log(await _vital(url, stage.session))
        async with run.admin() as admin:
            await run.check(admin)
        return await judge(run, seed=seed, seconds=seconds)


async def _work(
    run: Run, schedule: Sequence[Fault], *, seed: int, say: Callable[[str], None]
) -> None:
    """Let the crowd work while the faults come; returns when all is healed and the crowd has gone."""
    stage = run.stage
    async with asyncio.TaskGroup() as crowd:
        looking = crowd.create_task(run.look())
        for number, url in enumerate(stage.urls * PROVIDERS_A_REPLICA):
            provider = Provider(
                f"p{number}-{seed}",
                [url, *(other for other in stage.urls if other != url)],
                run.ledger,
                random.Random(f"provider {number} {seed}"),
            )
            crowd.create_task(provider.work(lambda: not run.peace, pause_seconds=run.pause_seconds))
        for number in range(OPERATORS):
            log = stage.log(f"operator{number}")
            rng = random.Random(f"operator {number} {seed}")
            operator = Operator(f"operator{number}", list(stage.urls), run.ledger, log, rng)
            run.operators.append(operator)
            crowd.create_task(operator.work(lambda: not run.peace))
        await _harm(run, schedule, say=say)
        await _heal(run)
        run.peace = True
        looking.cancel()


async def _harm(run: Run, schedule: Sequence[Fault], *, say: Callable[[str], None]) -> None:
    began = time.monotonic()

    async def one(fault: Fault) -> None:
        try:
            await do(run.stage, fault, note=run.done.append)
            say(f"{now() - run.began_at:8.2f}  over: {fault}")
        except Exception as error:  # noqa: BLE001 - a fault that cannot be done must not end the run
            run.findings.append(f"could not be done: {fault}: {error!r}")

    async with asyncio.TaskGroup() as group:
        for fault in schedule:
            await asyncio.sleep(max(0.0, began + fault.at_seconds - time.monotonic()))
            say(f"{now() - run.began_at:8.2f}  come: {fault}  ({run.open_turns} turns open)")
            group.create_task(one(fault))


async def _heal(run: Run) -> None:
    """No fault from here on: every way is open, everybody runs and behaves."""
    stage = run.stage
    stage.receivers.obliging = True
    (stage.folder / "obey").touch()
    for proxy in (*stage.ways.values(), *(replica.proxy for replica in stage.replicas)):
        proxy.heal()
    for keeper in stage.keepers:
        keeper.signal(signal.SIGCONT)
    for replica in stage.replicas:
        replica.ready = False
        await replica.until_ready(seconds_max=READY_SECONDS_MAX)
        if not replica.ready:
            run.findings.append(f"{replica.service.name} did not become ready again")


async def _come_to_rest(run: Run) -> None:
    """A fresh message through each replica is replied, and nothing stays open."""
    async with asyncio.TaskGroup() as group:
        for number, url in enumerate(run.stage.urls):
            group.create_task(_fresh(run, url, number))
    deadline = time.monotonic() + REST_SECONDS_MAX
    async with run.admin() as admin:
        while count := await admin.fetchval(OPEN, AT_REST):
            if time.monotonic() >= deadline:
                states = await admin.fetch("select state, count(*) from sink.turn group by state")
                run.findings.append(
                    f"{count} turns did not come to rest: {list(map(tuple, states))}"
                )
                return
            await asyncio.sleep(LOOK_SECONDS / 5)


async def _fresh(run: Run, url: str, number: int) -> None:
    event = Event(f"fresh-{number}", stages.QUEUES[0], b'{"fresh": %d}' % number)
    status, answer = await run.ledger.post(event, url)
    if status not in SETTLED:
        run.findings.append(f"{url} does not accept after the last fault: {status} {answer}")
        return
    run.ledger.acknowledged += 1
    path = f"{url}/v1/turns/{answer['turn']}?wait=replied&timeout_seconds={FRESH_SECONDS_MAX}"
    headers = {"Authorization": f"Bearer {run.stage.key}"}
    try:
        async with (
            asyncio.timeout(FRESH_SECONDS_MAX + 5),
            run.stage.session.get(path, headers=headers) as got,
        ):
            seen = await got.json()
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        seen = {"state": repr(error)}
    if seen.get("state") != "replied":
        run.findings.append(f"a fresh message through {url} is {seen}")


async def _vital(url: str, session: aiohttp.ClientSession) -> Vital:
    """How a replica is, as it says itself. Its loops use the pool for moments: it need only come to nothing once."""
    vital = Vital(now(), url, ready=False)
    for _ in range(VITALS_MAX):
        try:
            async with asyncio.timeout(5), session.get(f"{url}/readyz") as got:
                ready = got.status == HTTPStatus.OK
            async with asyncio.timeout(5), session.get(f"{url}/metrics") as got:
                lines = (await got.text()).splitlines()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return vital
        (busy,) = (float(line.rpartition(" ")[2]) for line in lines if line.startswith(BUSY))
        vital = Vital(now(), url, ready=ready, pool_in_use=int(busy))
        if not busy:
            break
        await asyncio.sleep(LOOK_SECONDS / 5)
    return vital
