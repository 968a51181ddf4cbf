"""Reads what a run has left behind, and says what is not as it must be."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.history.check import check
from tests.history.history import History
from tests.history.log import read_folder
from tests.history.rows import read_database, write_rows
from tests.torture.report import Figures, Report, recoveries

if TYPE_CHECKING:
    from tests.torture.run import Run

COMPLAINTS_SHOWN_MAX = 10


async def judge(run: "Run", *, seed: int, seconds: float) -> Report:
    """The verdict over all logs and the database, which nobody writes to any more."""
    stage = run.stage
    rows = await read_database(stage.postgres.url)
    write_rows(rows, stage.folder)
    found, never = recoveries(run.done, run.ledger.attempts)
    violations = [*run.findings, *run.ledger.findings, *never]
    for keeper in stage.keepers:
        violations += keeper.findings
    for replica in stage.replicas:
        violations += complaints(replica.service.log)
    if stage.receivers.trapped:
        violations.append(f"a redirect was followed {stage.receivers.trapped} times")

    violations += map(str, check(History(read_folder(stage.folder), rows)))
    snags = Counter[str]()
    for proxy in (*stage.ways.values(), *(replica.proxy for replica in stage.replicas)):
        snags.update(proxy.snagged)
    operators = Counter[str]()
    for counts in (
        *(one.answers for one in run.operators),
        *(one.answers for one in run.approvers),
    ):
        operators.update(counts)
    statuses = Counter(attempt.status for attempt in run.ledger.attempts)
    arrivals = stage.receivers.arrivals
    figures = Figures(
        recoveries=found,
        faults=Counter(done.kind for done in run.done),
        snags=snags,
        moods=stage.receivers.moods,
        operators=operators,
        turns=Counter(turn.state for turn in rows.turns),
        messages=Counter(message.state for message in rows.messages),
        accepts=len(rows.inbound),
        requests_refused=statuses[503],
        requests_unanswered=statuses[None],
        seconds=seconds,
        arrivals=arrivals.total(),
        arrived_twice=arrivals.total() - len(arrivals),
        events=Counter(
            f"{event.verb} of {'a message' if event.message else 'a turn'}" for event in rows.events
        ),
        agents_lost=sum(agent.deaths for agent in stage.agents),
        replica_starts=sum(replica.starts for replica in stage.replicas),
        replica_refusals=sum(replica.refusals for replica in stage.replicas),
        cut_looks=run.cut_looks,
    )
    return Report(seed, figures, violations)


def complaints(log: Path) -> list[str]:
    """What a replica logged as an error, and what it wrote that is no log at all but a reason not to start."""
    found = Counter[str]()
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("sinksweep: "):
            continue
        try:
            told = json.loads(line)
        except ValueError:
            found[line] += 1
        else:
            if told["level"] in ("error", "critical"):
                found[line] += 1
    lines = list(found.items())[:COMPLAINTS_SHOWN_MAX]
    return [f"{log.name} {count} times: {line}" for line, count in lines]
