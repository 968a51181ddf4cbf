"""One run: a crowd works while faults come; then there is peace, in which everything must come to its end."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.history.log import Healed, Terms, now
from tests.torture import stage as stages
from tests.torture.approvers import Approver
from tests.torture.harm import do
from tests.torture.judge import judge
from tests.torture.operators import Operator
from tests.torture.peace import come_to_rest, heal, vital
from tests.torture.provider import Ledger, Provider
from tests.torture.report import Report
from tests.torture.run import Run
from tests.torture.schedule import HELD, PAUSE_SECONDS, Fault, Kind, draw
from tests.torture.stage import open_stage

PROVIDERS_A_REPLICA = 2
OPERATORS = 3
APPROVERS = 2
SLACK_SECONDS = 5.0
# What waits for its target still when the last fault has come is left out.
TAIL_SECONDS = 4.0


async def torture(
    folder: Path,
    *,
    seed: int,
    seconds: float,
    pause_seconds: tuple[float, float] = PAUSE_SECONDS,
    plant: str | None = None,
    say: Callable[[str], None],
) -> Report:
    """Run faults for so many seconds, heal, and judge. The folder keeps every log."""
    schedule = draw(seed=seed, seconds=seconds, pause_seconds=pause_seconds)
    (folder / "schedule.txt").write_text("\n".join(map(str, schedule)) + "\n")
    async with open_stage(folder, seed=seed, plant=plant) as stage:
        run = Run(stage, Ledger(stage.log("providers"), stage.session, stage.key))
        with stage.log("run") as log:
            log(
                Terms(
                    turn_attempts_max=stages.TURN_ATTEMPTS_MAX,
                    releases_max=stages.RELEASES_MAX,
                    message_attempts_max=stages.MESSAGE_ATTEMPTS_MAX,
                    holding=(HELD,),
                    told_queues=stages.QUEUES,
                    slack_seconds=SLACK_SECONDS,
                )
            )
            log(await run.moment())
            say(f"{len(schedule)} faults in {seconds:g} s, seed {seed}, logs in {folder}")
            await _work(run, schedule, seed=seed, say=say)
            say("healed")
            log(Healed(now(), tuple(stage.urls), tuple(stage.urls)))
            await come_to_rest(run)
            say("at rest")
            for agent in stage.agents:
                agent.kill()
            for url in stage.urls:
                log(await vital(url, stage.session))
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
        for number in range(APPROVERS):
            name = f"approver{number}"
            approver = Approver(
                name,
                list(stage.urls),
                run.ledger,
                stage.approver,
                stage.log(name),
                random.Random(f"{name} {seed}"),
            )
            run.approvers.append(approver)
            crowd.create_task(approver.work(lambda: not run.peace))
        switch = Operator(
            "switch",
            list(stage.urls),
            run.ledger,
            stage.log("switch"),
            random.Random(f"switch {seed}"),
        )
        run.operators.append(switch)
        crowd.create_task(switch.stop_and_go(lambda: not run.peace, subjects=stages.SUBJECTS))
        await _harm(run, schedule, say=say)
        await heal(run)
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
        tasks: list[asyncio.Task[None]] = []
        waited = 0.0
        for number, fault in enumerate(schedule):
            if number >= len(Kind) and waited + fault.at_seconds > schedule[-1].at_seconds:
                break
            await asyncio.sleep(max(0.0, began + fault.at_seconds + waited - time.monotonic()))
            waited += await run.life()
            say(f"{now() - run.began_at:8.2f}  come: {fault}  ({run.open_turns} turns open)")
            tasks.append(group.create_task(one(fault)))
            tasks = [task for task in tasks if not task.done()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=TAIL_SECONDS)
            for task in late:
                task.cancel()
