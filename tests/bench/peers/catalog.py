"""The peers: where each runs, how it is set, and what it does not do of what Sinksweep does, by their own texts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

PROGRAMS: Final = Path(__file__).with_name("programs")


@dataclass(frozen=True, slots=True)
class Entry:
    """A peer. `key`: a repeated accept is known again. `order`: within a conversation. `whole`: all that a handler
    says is there with its end, or nothing is. `sends`: what a delivery over HTTP is left to."""

    name: str
    program: str
    environment: str
    runs_in: Literal["ours", "python", "node", "restate"]
    key: str
    order: str
    whole: str
    sends: str
    set_to: str
    # Sends left before a drain: some two seconds of its work.
    backlog: int = 12_000

    @property
    def path(self) -> Path:
        """Its program."""
        return PROGRAMS / self.program


OWN_CODE: Final = (
    "the handler's code: its key, its signature, what an answer means, when to give up"
)
STEPS: Final = "no: each step is recorded alone, and what was sent before a crash stays sent"

ENTRIES: Final = (
    Entry(
        "bare",
        "bare_program.py",
        "",
        "ours",
        key="no",
        order="no",
        whole="yes, by hand",
        sends=OWN_CODE,
        set_to="batches of 100, two senders, looks every 20 ms; no retries, no history, no dead letters",
    ),
    Entry(
        "procrastinate",
        "procrastinate_program.py",
        "procrastinate",
        "python",
        key="while a job waits (queueing_lock)",
        order="by lock, not set here",
        whole="no: jobs are put in, and then the handler ends",
        sends=OWN_CODE,
        set_to="50 at once, LISTEN/NOTIFY",
        backlog=2000,
    ),
    Entry(
        "pgqueuer",
        "pgqueuer_program.py",
        "pgqueuer",
        "python",
        key="while a job waits or runs (dedupe_key)",
        order="of all jobs of a kind (concurrency_limit), not set here",
        whole="no: jobs are put in, and then the handler ends",
        sends=OWN_CODE,
        set_to="batches of 100, LISTEN/NOTIFY",
    ),
    Entry(
        "DBOS",
        "dbos_program.py",
        "dbos",
        "python",
        key="the workflow's id, as long as its row",
        order="by queue partition, not set here",
        whole=STEPS,
        sends=OWN_CODE,
        set_to="3 steps a turn, no limit at once, looks every 50 ms (its default: 1 s)",
        backlog=1000,
    ),
    Entry(
        "Absurd",
        "absurd_program.py",
        "absurd",
        "python",
        key="as long as the task (idempotency_key)",
        order="no",
        whole=STEPS,
        sends=OWN_CODE,
        set_to="3 steps a turn, 50 at once, claims 50, looks every 50 ms",
        backlog=1000,
    ),
    Entry(
        "Oban for Python",
        "oban_program.py",
        "oban",
        "python",
        key="no: not in this package",
        order="no",
        whole="no: jobs are put in, and then the handler ends",
        sends=OWN_CODE,
        set_to="100 at once, its notifier",
        backlog=4000,
    ),
    Entry(
        "pg-boss",
        "pgboss_program.mjs",
        "node",
        "node",
        key="the job's id, as long as its row; singletonKey",
        order="by a queue's policy (key_strict_fifo), not set here",
        whole="no: jobs are put in, and then the handler ends",
        sends=f"{OWN_CODE}; a batch fails together",
        set_to="batches of 100, 2 workers a queue, burstWhenBatchFull, LISTEN/NOTIFY",
    ),
    Entry(
        "graphile-worker",
        "graphile_program.mjs",
        "node",
        "node",
        key="until the job has run (job_key)",
        order="by named queue, not set here",
        whole="no: jobs are put in, and then the handler ends",
        sends=OWN_CODE,
        set_to="as its page on performance: 24 at once, local queue of 500, ends in batches",
    ),
    Entry(
        "Restate",
        "restate_program.py",
        "restate",
        "restate",
        key="Idempotency-Key, for its retention; not sent here",
        order="by object key, not set here",
        whole=STEPS,
        sends=OWN_CODE,
        set_to="3 steps a turn; its own store, not Postgres; accepts are measured with an empty handler running",
    ),
)
BY_NAME: Final[Mapping[str, Entry]] = {entry.name.lower().split()[0]: entry for entry in ENTRIES}
