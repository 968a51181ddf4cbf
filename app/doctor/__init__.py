"""The doctor: looks at everything that can go wrong around the service, says it in plain words, and changes nothing.

Every check is in one list, under a stable code. It works while the service runs.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from app.doctor import disk, link, machine, outside, people, schema, server, sessions, sources, work
from app.doctor.findings import Check, Finding, Level, skipped, warning
from app.doctor.patient import Patient

CHECK_SECONDS_MAX = 60.0

CHECKS: tuple[Check, ...] = (
    Check("connection", link.check_connection, needs="nothing"),
    Check("server_version", server.check_version),
    Check("fsync", server.check_fsync),
    Check("full_page_writes", server.check_full_page_writes),
    Check("synchronous_commit", server.check_synchronous_commit),
    Check("allow_unsafe", link.check_unsafe, needs="nothing"),
    Check("standby", server.check_standby),
    Check("file_system", disk.check_file_system),
    Check("disk_space", disk.check_space),
    Check("commit_latency", server.check_commit_latency),
    Check("migrations", schema.check_migrations),
    Check("privileges", schema.check_privileges, needs="schema"),
    Check("indexes", schema.check_indexes, needs="schema"),
    Check("autovacuum", schema.check_autovacuum),
    Check("bloat", schema.check_bloat, needs="schema"),
    Check("freezing", schema.check_freezing),
    Check("long_transactions", sessions.check_long_transactions),
    Check("prepared_transactions", sessions.check_prepared_transactions),
    Check("replication_slots", sessions.check_slots),
    Check("connections_left", sessions.check_connections),
    Check("clock_skew", link.check_clock),
    Check("pooler", link.check_pooler),
    Check("notifications", link.check_notifications),
    Check("open_files", machine.check_open_files, needs="nothing"),
    Check("secrets", outside.check_secrets, needs="nothing"),
    Check("sources", sources.check_sources, needs="nothing"),
    Check("source_ids", sources.check_ids, needs="schema"),
    Check("destinations", outside.check_destinations, needs="nothing"),
    Check("unknown_names", work.check_names, needs="schema"),
    Check("breakers", work.check_breakers, needs="schema"),
    Check("pauses", work.check_pauses, needs="schema"),
    Check("sweep", work.check_sweep, needs="schema"),
    Check("retention", work.check_retention, needs="schema"),
    Check("queues", work.check_queues, needs="schema"),
    Check("deliveries", work.check_deliveries, needs="schema"),
    Check("dead_letters", work.check_dead, needs="schema"),
    Check("approvers", people.check_approvers, needs="nothing"),
    Check("holds", people.check_holds, needs="schema"),
    Check("notices", people.check_notices, needs="schema"),
)

# What must be good before others can be made.
_FIRST = {"database": "connection", "schema": "migrations"}


@dataclass(frozen=True, slots=True)
class Examined:
    """One check with all that it found."""

    code: str
    findings: Sequence[Finding]

    @property
    def level(self) -> Level:
        """The worst of its findings."""
        order = (Level.WRONG, Level.WARNING, Level.SKIPPED, Level.GOOD)
        found = {finding.level for finding in self.findings}
        return next(level for level in order if level in found)


async def examine(patient: Patient) -> list[Examined]:
    """Make every check, one after the other. One that cannot be made says so, and keeps no other from being made."""
    examined: dict[str, Examined] = {}
    for check in CHECKS:
        examined[check.code] = Examined(check.code, await _made(check, patient, examined))
    return list(examined.values())


async def _made(check: Check, patient: Patient, before: dict[str, Examined]) -> Sequence[Finding]:
    needed = [] if check.needs == "nothing" else ["database"]
    needed += ["schema"] if check.needs == "schema" else []
    for first in (_FIRST[one] for one in needed):
        if before[first].level is Level.WRONG:
            return [skipped(f"Not looked at, because of what is wrong above ({first}).")]
    try:
        async with asyncio.timeout(CHECK_SECONDS_MAX):
            return await check.make(patient)
    except Exception as error:  # noqa: BLE001 - whatever keeps one check from being made, the others are
        # The error's own text may quote what it failed on.
        why = type(error.__cause__ or error).__name__
        return [
            warning(f"This could not be looked at: {why}.", "Run it as a login that may see it.")
        ]
