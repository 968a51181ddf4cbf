"""The end of a run: no more faults, and everything that was accepted must come to its end, through every replica."""

import asyncio
import signal
import time
from http import HTTPStatus

import aiohttp

from tests.history.log import Vital, now
from tests.torture import stage as stages
from tests.torture.provider import SETTLED, Event
from tests.torture.run import AT_REST, OPEN, Run

REST_SECONDS_MAX = 40.0
READY_SECONDS_MAX = 25.0
FRESH_SECONDS_MAX = 20.0
PAUSE_SECONDS = 0.1
VITALS_MAX = 30
BUSY = 'sinksweep_pool_connections{state="busy"}'


async def heal(run: Run) -> None:
    """No fault from here on: every way is open, everybody runs and behaves."""
    stage = run.stage
    async with stage.postgres_busy:
        # Whoever was to bring it back may have been cut off by the end of the faults.
        await stage.postgres.start()
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


async def come_to_rest(run: Run) -> None:
    """A fresh message through each replica is replied, and nothing stays open."""
    async with asyncio.TaskGroup() as group:
        for number, url in enumerate(run.stage.urls):
            group.create_task(_fresh(run, url, number))
    deadline = time.monotonic() + REST_SECONDS_MAX
    async with run.admin() as admin:
        # Somebody comes who decides about everything that still waits.
        while count := await admin.fetchval(OPEN, AT_REST):
            if time.monotonic() >= deadline:
                states = await admin.fetch("select state, count(*) from sink.turn group by state")
                run.findings.append(
                    f"{count} turns did not come to rest: {list(map(tuple, states))}"
                )
                return
            for approver in run.approvers[:1]:
                await approver.finish()
            await asyncio.sleep(PAUSE_SECONDS)


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


async def vital(url: str, session: aiohttp.ClientSession) -> Vital:
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
        await asyncio.sleep(PAUSE_SECONDS)
    return vital
