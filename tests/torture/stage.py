"""Everything a run stands on, in one folder: a durable Postgres, replicas and agents, and a proxy on each way."""

import asyncio
import contextlib
import random
import shutil
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import aiohttp

from app.engine import schema
from app.engine.database import open_pool
from app.engine.keys import create_key
from tests.database import options_for, scratch_folder
from tests.history.log import Log
from tests.system.own_postgres import OwnPostgres, open_own_postgres
from tests.system.rig import WORKING
from tests.torture.provider import CONVERSATIONS
from tests.torture.proxy import Proxy, Streams, open_proxy
from tests.torture.receivers import Receivers, open_receivers
from tests.torture.replicas import Replica, Worker, build_replica
from tests.torture.schedule import AGENTS, DESTINATIONS, HELD

# Every replica takes calls, so that each can be asked; the rest is mixed, and no loop runs only once.
ROLES = {"one": "api,deliver,sweep", "two": "api,deliver", "three": "api,sweep"}
QUEUES = tuple(CONVERSATIONS)
# Where people are told, like any other destination.
DESK = "mail"
# What is paused for a moment, now and then: the names of the history's rules.
SUBJECTS = (
    *(f"queue/{name}" for name in CONVERSATIONS),
    *(f"destination/{name}" for name in DESTINATIONS),
    "source/api",
    "all/",
)
COALESCING = "coalesce_quiet_seconds = 0.2\ncoalesce_seconds_max = 1.0"
LEASE_SECONDS = 2
TURN_ATTEMPTS_MAX = 6
RELEASES_MAX = 5
START_SECONDS_MAX = 30.0
MESSAGE_ATTEMPTS_MAX = 8


def configuration(urls: dict[str, str]) -> str:
    """Short times, so that what has to pass passes soon."""
    queues = "".join(
        f"""
[queues.{name}]
attempts_max = {TURN_ATTEMPTS_MAX}
lease_seconds = {LEASE_SECONDS}
backoff_seconds = 0.1
backoff_seconds_max = 0.3
hold_deadline_seconds = 2
on_deadline = "{"cancel" if name == "chat" else "escalate"}"
reminder_seconds = 1
reminder_seconds_max = 2
revisions_max = 2
escalate_to = "{DESK}"
{COALESCING if name == "chat" else ""}
"""
        for name in QUEUES
    )
    destinations = "".join(
        f"""
[destinations.{name}]
kind = "webhook"
url = "{url}"
timeout_seconds = 1.0
attempts_max = {MESSAGE_ATTEMPTS_MAX}
concurrency_max = 16
on_unknown = "{"hold" if name == HELD else "retry"}"
breaker_seconds = 0.2
breaker_seconds_max = 0.5
backoff_seconds = 0.1
backoff_seconds_max = 0.3
"""
        for name, url in urls.items()
    )
    return f"""
[database]
pool_max = 6
connect_seconds = 2
statement_timeout_ms = 2000
lock_timeout_ms = 1000
command_seconds_max = 3
{queues}{destinations}
[delivery]
lease_margin_seconds = 1
poll_seconds = 0.5

[limits]
releases_max = {RELEASES_MAX}

[sweep]
interval_seconds = 0.25

[server]
drain_seconds = 3

[network]
allow = ["127.0.0.0/8"]
"""


@dataclass(slots=True)
class Stage:
    """What a run may touch."""

    folder: Path
    postgres: OwnPostgres
    session: aiohttp.ClientSession
    key: str
    approver: str
    replicas: list[Replica]
    agents: list[Worker]
    receivers: Receivers
    ways: dict[str, Proxy]
    postgres_busy: asyncio.Lock

    @property
    def urls(self) -> list[str]:
        """Where the replicas answer."""
        return [replica.service.url for replica in self.replicas]

    @property
    def keepers(self) -> list[Replica | Worker]:
        """Everybody who is a process that is kept running."""
        return [*self.replicas, *self.agents]

    def log(self, name: str) -> Log:
        """A log of this run."""
        return Log(self.folder / f"{name}.jsonl")


@contextlib.asynccontextmanager
async def open_stage(folder: Path, *, seed: int, plant: str | None) -> AsyncIterator[Stage]:
    """Build everything and start the replicas and agents with it; everything ends with the context."""
    async with contextlib.AsyncExitStack() as stack:
        # What a killed process has written stays written, in memory as on a disk; recovery is faster.
        postgres = await stack.enter_async_context(
            open_own_postgres("max_connections=200", parent=scratch_folder())
        )
        key, approver = await _prepare(postgres)
        receivers = await stack.enter_async_context(
            open_receivers(Log(folder / "receivers.jsonl"), random.Random(f"moods {seed}"))
        )

        async def to_receivers() -> Streams:
            return await asyncio.open_connection("127.0.0.1", receivers.port)

        (sockets,) = parse_qs(urlsplit(postgres.url).query)["host"]

        async def to_postgres() -> Streams:
            return await asyncio.open_unix_connection(f"{sockets}/.s.PGSQL.5432")

        ways = {
            name: await stack.enter_async_context(open_proxy(name, to_receivers))
            for name in DESTINATIONS
        }
        urls = {name: f"http://127.0.0.1:{way.port}/{name}" for name, way in ways.items()}
        (folder / "sinksweep.toml").write_text(configuration(urls))
        # Connections are not kept: a fault is met by a new one.
        session = await stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True, limit=0))
        )
        replicas = [
            build_replica(
                name,
                roles=roles,
                port=stack.enter_context(_reserved_port()),
                proxy=await stack.enter_async_context(
                    open_proxy(name, to_postgres, speaks_postgres=True)
                ),
                folder=folder,
                key=key,
                session=session,
                plant=plant,
            )
            for name, roles in ROLES.items()
        ]
        agents = [_worker(n, folder, key=key, seed=seed, replicas=replicas) for n in range(AGENTS)]
        stage = Stage(
            folder,
            postgres,
            session,
            key,
            approver,
            replicas,
            agents,
            receivers,
            ways,
            asyncio.Lock(),
        )
        try:
            async with asyncio.TaskGroup() as group:
                keepers = [group.create_task(one.keep()) for one in replicas]
                for replica in replicas:
                    await replica.until_ready(seconds_max=START_SECONDS_MAX)
                    assert replica.ready, f"did not start:\n{replica.service.tail()}"
                log = folder / "agents.log"
                keepers += [group.create_task(one.keep(log)) for one in agents]
                yield stage
                for keeper in keepers:
                    keeper.cancel()
        finally:
            for one in stage.keepers:
                await one.end()
            shutil.copyfile(postgres.log, folder / "postgres.log")


def _worker(number: int, folder: Path, *, key: str, seed: int, replicas: list[Replica]) -> Worker:
    urls = [replica.service.url for replica in replicas]
    task: dict[str, object] = {
        "urls": urls[number % len(urls) :] + urls[: number % len(urls)],
        "key": key,
        "queues": QUEUES,
        "destinations": DESTINATIONS,
        "folder": str(folder),
        "lease_seconds": LEASE_SECONDS,
    }
    return Worker(f"agent{number}", task, random.Random(f"agent {number} {seed}"))


async def _prepare(postgres: OwnPostgres) -> tuple[str, str]:
    """The schema, a key that may do everything but decide, and one that decides."""
    await schema.upgrade(postgres.url)
    async with open_pool(options_for(postgres.url), application_name="torture") as pool:
        return (
            await create_key(pool, name="torture", scopes=WORKING, queues=None),
            await create_key(pool, name="approver", scopes=["approve"], queues=None),
        )


@contextlib.contextmanager
def _reserved_port() -> Iterator[int]:
    # Bound and not listening: nobody else is given it, and a listener may still take it.
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])
