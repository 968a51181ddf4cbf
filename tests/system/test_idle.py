"""An idle replica leaves the database alone, and is there when something becomes due."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from tests.receiver import Receiver
from tests.system.conftest import configuration
from tests.system.processes import POLL_SECONDS, Service
from tests.system.provider import Provider, events
from tests.system.rig import Rig

if TYPE_CHECKING:
    from tests.database import Admin

SETTLING_SECONDS = 6.0
WINDOW_SECONDS = 20.0
# What is promised. A look that comes at an unlucky moment is within it.
PER_SECOND_MAX = 1.0

MORE = """
[queues.other]

[sources.nightly]
kind = "cron"
queue = "other"
schedule = "0 3 1 1 *"
payload = "x"
"""


def _patient(url: str) -> str:
    """As it is by default, where the tests are in a hurry."""
    text = configuration(url, more=MORE)
    return text.replace("interval_seconds = 0.2", "interval_seconds = 1")


async def _listens(service: Service) -> None:
    async with asyncio.timeout(10):
        while b"sinksweep_wakeups_listening 1.0" not in (await service.get("/metrics")).body:
            await asyncio.sleep(POLL_SECONDS)


async def _queries(admin: "Admin") -> list[str]:
    """What the database was asked by others within the window."""
    await admin.execute("set log_statement = 'none'")
    log = Path(await admin.fetchval("show data_directory")).parent / "postgres.log"
    before = log.stat().st_size
    await asyncio.sleep(WINDOW_SECONDS)
    lines = log.read_bytes()[before:].decode(errors="replace").splitlines()
    ends = ("BEGIN;", "COMMIT;")
    return [
        line
        for line in lines
        if " execute " in line or (" statement: " in line and not line.endswith(ends))
    ]


async def test_an_idle_replica_asks_less_than_once_a_second(
    rig: Rig, admin: "Admin", receiver: Receiver
) -> None:
    name = await admin.fetchval("select current_database()")
    await admin.execute(f"alter database {name} set log_statement = 'all'")
    rig.configure(_patient(receiver.url))
    service = await rig.serve("service")
    await _listens(service)
    wish = {"queue": "support", "agent": "waits", "wait_seconds": 28}
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(service.post("/v1/turns/claim", wish))
        await asyncio.sleep(SETTLING_SECONDS)
        asked = await _queries(admin)
        assert not waiting.done()
        # It is there at once all the same.
        (event,) = events(1, conversations=0)
        await Provider([service]).send(event)
        async with asyncio.timeout(1.0):
            assert len((await waiting).json["turns"]) == 1
    assert asked
    assert len(asked) < PER_SECOND_MAX * WINDOW_SECONDS, asked
