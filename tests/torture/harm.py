"""Does what the schedule says, and undoes it: one function a kind of fault.

`Done` says whom a fault hit and when, so that recoveries can be measured; a fault that met its target in the middle of
another one waits for its turn.
"""

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

import asyncpg

from tests.history.log import now
from tests.torture.proxy import At, Proxy, Snag, Way
from tests.torture.replicas import Replica, Worker
from tests.torture.schedule import Fault, Kind
from tests.torture.stage import Stage

if TYPE_CHECKING:
    from tests.database import Admin

SNAGS_MAX = 5
SNAG_BYTES_MAX = 400
DELAY_SECONDS_MAX = 0.25
BYTES_A_SECOND_MIN = 4_000
READY_SECONDS_MAX = 10.0
LOCKS = (
    "select from sink.lane order by queue, conversation limit 5 offset {n} for update",
    "select from sink.turn where state in ('queued', 'processing') limit 5 for update",
    "select from sink.turn where state = 'sealed' limit 5 for update",
    "select from sink.outbox where state in ('pending', 'sending') limit 5 for update",
    "select from sink.delivery_lane order by queue limit 5 offset {n} for update",
    "lock table sink.outbox in share mode",
)
SESSIONS = """
    select pid from pg_stat_activity
    where application_name like 'sinksweep%' and pid <> pg_backend_pid()
"""
UNREACHABLE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)


@dataclass(frozen=True, slots=True)
class Done:
    """A fault that was done: the replicas (by URL) whose accepts it may have stopped, from `at` on."""

    at: float
    kind: Kind
    replicas: tuple[str, ...]


async def do(stage: Stage, fault: Fault, *, note: Callable[[Done], None]) -> None:
    """Do one fault, let it last, and undo it."""
    rng = random.Random(fault.seed)
    replica = stage.replicas[fault.target % len(stage.replicas)]

    def tell(*replicas: Replica) -> None:
        note(Done(now(), fault.kind, tuple(one.service.url for one in replicas)))

    match fault.kind:
        case Kind.KILL_REPLICA | Kind.FREEZE_REPLICA | Kind.ROLL:
            for one in stage.replicas if fault.kind is Kind.ROLL else [replica]:
                tell(one)
                await _trouble(one, fault)
        case Kind.KILL_POSTGRES | Kind.KILL_BOTH:
            tell(*stage.replicas)
            await _crash(stage, replica, fault, rng)
        case Kind.KILL_BACKEND | Kind.TERMINATE | Kind.HOLD_TRANSACTION | Kind.HOLD_LOCKS:
            tell(*stage.replicas)
            await _disturb(stage, fault, rng)
        case Kind.FREEZE_AGENT | Kind.KILL_AGENT:
            tell()
            await _trouble_agent(stage.agents[fault.target % len(stage.agents)], fault)
        case Kind.WIRE_SNAGS | Kind.SLOW_WIRE | Kind.WIRE_HOLE | Kind.WIRE_RESET:
            tell()
            ways = list(stage.ways.values())
            await _hinder([ways[fault.target % len(ways)]], fault, rng)
        case (
            Kind.COMMIT_SNAGS
            | Kind.BYTE_SNAGS
            | Kind.SLOW_DATABASE
            | Kind.DATABASE_HOLE
            | Kind.DATABASE_RESET
        ):
            # A cut commit hinders little, and is what matters most.
            hit = stage.replicas if fault.kind is Kind.COMMIT_SNAGS else [replica]
            tell(*hit)
            await _hinder([one.proxy for one in hit], fault, rng)
        case _:
            assert_never(fault.kind)


async def _trouble(replica: Replica, fault: Fault) -> None:
    async with replica.busy:
        try:
            match fault.kind:
                case Kind.FREEZE_REPLICA:
                    replica.signal(signal.SIGSTOP)
                    await asyncio.sleep(fault.lasts_seconds)
                    replica.signal(signal.SIGCONT)
                case Kind.ROLL:
                    replica.wanted = False
                    await replica.stop()
                case _:
                    replica.wanted = False
                    replica.kill()
                    await asyncio.sleep(fault.lasts_seconds)
        finally:
            replica.wanted = True
        await replica.until_ready(seconds_max=READY_SECONDS_MAX)


async def _trouble_agent(agent: Worker, fault: Fault) -> None:
    if fault.kind is Kind.KILL_AGENT:
        agent.kill()
    else:
        agent.signal(signal.SIGSTOP)
        await asyncio.sleep(fault.lasts_seconds + 1)
        agent.signal(signal.SIGCONT)


async def _crash(stage: Stage, replica: Replica, fault: Fault, rng: random.Random) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_kill_postgres(stage, fault.lasts_seconds))
        if fault.kind is Kind.KILL_BOTH:
            await asyncio.sleep(rng.random())
            await _trouble(replica, fault)


async def _kill_postgres(stage: Stage, seconds: float) -> None:
    async with stage.postgres_busy:
        try:
            await stage.postgres.kill()
            await asyncio.sleep(seconds)
        finally:
            await stage.postgres.start()


async def _disturb(stage: Stage, fault: Fault, rng: random.Random) -> None:
    """What somebody with a session of his own can do to the others; nothing when the server is away."""
    with contextlib.suppress(*UNREACHABLE):
        admin = await asyncpg.connect(stage.postgres.url, timeout=3)
        try:
            await _disturb_as(admin, fault, rng)
        finally:
            admin.terminate()


async def _disturb_as(admin: "Admin", fault: Fault, rng: random.Random) -> None:
    match fault.kind:
        case Kind.KILL_BACKEND:
            pids = [row["pid"] for row in await admin.fetch(SESSIONS)]
            if pids:
                os.kill(rng.choice(pids), signal.SIGKILL)
        case Kind.TERMINATE:
            pids = [row["pid"] for row in await admin.fetch(SESSIONS)]
            for pid in pids:
                if rng.random() < 0.5:
                    await admin.execute("select pg_terminate_backend($1)", pid)
                    await asyncio.sleep(fault.lasts_seconds / 20)
        case Kind.HOLD_TRANSACTION:
            async with admin.transaction(isolation="repeatable_read"):
                await admin.fetch("select count(*) from sink.turn")
                await asyncio.sleep(fault.lasts_seconds)
        case _:
            async with admin.transaction():
                await admin.execute("set local lock_timeout = '1s'")
                await admin.fetch(rng.choice(LOCKS).format(n=rng.randrange(20)))
                await asyncio.sleep(fault.lasts_seconds)


async def _hinder(proxies: Sequence[Proxy], fault: Fault, rng: random.Random) -> None:
    async with asyncio.TaskGroup() as group:
        for proxy in proxies:
            group.create_task(_hinder_one(proxy, fault, rng))


async def _hinder_one(proxy: Proxy, fault: Fault, rng: random.Random) -> None:
    """Make one way worse for a while."""
    match fault.kind:
        case Kind.COMMIT_SNAGS | Kind.BYTE_SNAGS | Kind.WIRE_SNAGS:
            draw = _commit_snag if fault.kind is Kind.COMMIT_SNAGS else _byte_snag
            snags = [draw(rng) for _ in range(rng.randint(1, SNAGS_MAX))]
            proxy.arm(*snags)
            await asyncio.sleep(fault.lasts_seconds)
            proxy.disarm(*snags)
        case Kind.DATABASE_RESET | Kind.WIRE_RESET:
            proxy.reset()
        case Kind.SLOW_DATABASE | Kind.SLOW_WIRE:
            proxy.delay_seconds = rng.uniform(0, DELAY_SECONDS_MAX)
            if rng.random() < 0.3:
                proxy.bytes_a_second = BYTES_A_SECOND_MIN * 2 ** rng.uniform(0, 6)
            await asyncio.sleep(fault.lasts_seconds)
            proxy.heal()
        case _:
            proxy.swallow(*rng.choice(((Way.OUT,), (Way.BACK,), (Way.OUT, Way.BACK))))
            await asyncio.sleep(fault.lasts_seconds)
            if rng.random() < 0.5:
                # Held back, what was written is lost with its connection; otherwise it arrives late.
                proxy.reset()
            proxy.heal()


def _commit_snag(rng: random.Random) -> Snag:
    return Snag(
        rng.choice((At.BEFORE_COMMIT, At.BEFORE_ANSWER_OF_COMMIT, At.AFTER_ANSWER_OF_COMMIT))
    )


def _byte_snag(rng: random.Random) -> Snag:
    return Snag(At.BYTE, rng.choice(list(Way)), rng.randrange(SNAG_BYTES_MAX))
