"""Is this server good for it: does it keep what it acknowledges, and how long does that take?"""

from app.doctor.findings import Finding, Level, good, skipped, span, warning, wrong
from app.doctor.patient import Patient
from app.engine.diagnose import (
    find_server,
    find_settings,
    find_standbys,
    time_commits,
    time_questions,
)
from app.engine.transaction import DatabaseUnavailable

VERSION_MIN = 150_000
COMMITS = 60
COMMIT_SECONDS_MAX = 10.0
QUESTIONS = 20
# What a commit takes where the disk is right for it, and where nobody would want to wait for it.
GOOD_SECONDS = 0.005
SLOW_SECONDS = 0.050
# Faster than this no disk and no battery-backed cache has ever flushed a log from another process.
IMPLAUSIBLE_SECONDS = 0.00006


async def check_version(patient: Patient) -> list[Finding]:
    """15 is the oldest server that the statements are written for."""
    server = await find_server(patient.login)
    if server.version < VERSION_MIN:
        text = f"This is Postgres {server.spelled}; 15 is the oldest that works."
        return [wrong(text, "Upgrade the server.")]
    if server.is_standby:
        text = "This server is a standby: it takes no writes."
        return [wrong(text, "Point database_url at the primary; several hosts may be named in it.")]
    return [good(f"Postgres {server.spelled}, a primary.")]


async def _on(patient: Patient, name: str, *, loses: str) -> list[Finding]:
    value = (await find_settings(patient.service, name)).get(name)
    if value is None:
        return [skipped(f"{name} cannot be seen by this role.")]
    if value != "off":
        return [good(f"{name} is {value}.")]
    advice = f"Set {name} = on in the server's configuration (postgresql.conf) and reload it."
    if patient.settings.database.allow_unsafe:
        advice += " The service starts all the same, because database.allow_unsafe is true."
    return [wrong(f"{name} is off: {loses}", advice)]


async def check_fsync(patient: Patient) -> list[Finding]:
    """Without it a crash of the machine loses everything since nobody knows when."""
    return await _on(patient, "fsync", loses="after a crash the whole database may be corrupt.")


async def check_full_page_writes(patient: Patient) -> list[Finding]:
    """Without it a page that was half written stays half written."""
    loses = "a page torn by a crash cannot be restored."
    return await _on(patient, "full_page_writes", loses=loses)


async def check_synchronous_commit(patient: Patient) -> list[Finding]:
    """Asked as the role that works: it may be set for a role or a database alone."""
    loses = "a 2xx is answered before the commit is on the disk, and a crash loses it."
    return await _on(patient, "synchronous_commit", loses=loses)


async def check_standby(patient: Patient) -> list[Finding]:
    """A commit waits for the standbys that are named, for ever if they are not there."""
    names = "synchronous_standby_names"
    settings = await find_settings(patient.login, names, "synchronous_commit", "wal_level")
    if not settings.get(names):
        level = settings.get("wal_level", "unknown")
        text = (
            f"No commit waits for a standby (wal_level {level}): this server alone keeps the data."
        )
        advice = "Losing its disk loses the data: keep backups, or a standby that commits wait for."
        return [Finding(Level.GOOD, text, advice)]
    if settings.get("synchronous_commit") == "local":
        return [warning("Standbys are named, and commits do not wait for them.", _STANDBY_LOCAL)]
    found = await find_standbys(patient.login)
    if found.synchronous:
        return [good(f"Commits wait for a standby, and {found.synchronous} of them follow.")]
    text = f"{names} is set and no such standby is connected: every commit hangs."
    advice = f"Bring the standby back, or clear {names} and reload the server."
    return [wrong(text, advice)]


_STANDBY_LOCAL = "Set synchronous_commit = on if a failover must not lose what was acknowledged."


async def check_commit_latency(patient: Patient) -> list[Finding]:
    """Every accept and every seal waits for one commit: real ones are made, of a record that nobody reads."""
    try:
        took = sorted(
            await time_commits(patient.service, count=COMMITS, seconds_max=COMMIT_SECONDS_MAX)
        )
    except DatabaseUnavailable as error:
        if isinstance(error.__cause__, TimeoutError):
            text = f"A commit did not end within {span(patient.options.command_seconds_max)}."
            advice = "Look for a standby that commits wait for, a full disk, or a disk that hangs."
            return [wrong(text, advice)]
        raise
    asked = sorted(
        await time_questions(patient.service, count=QUESTIONS, seconds_max=COMMIT_SECONDS_MAX)
    )
    way = asked[len(asked) // 2]
    half, most = took[len(took) // 2], took[min(len(took) - 1, int(len(took) * 0.99))]
    figures = (
        f"p50 {span(half)}, p99 {span(most)} of {len(took)} (the way there and back is {span(way)})"
    )
    durable = await find_settings(patient.service, "fsync", "synchronous_commit")
    if "off" in durable.values():
        return [warning(f"A commit takes {figures}: nothing is flushed.", _NOT_FLUSHED)]
    if half - way < IMPLAUSIBLE_SECONDS:
        return [warning(f"A commit takes {figures}: implausibly fast for a disk.", _LIES)]
    if half >= SLOW_SECONDS:
        return [wrong(f"A commit takes {figures}: this disk is too slow.", _SLOW)]
    if half >= GOOD_SECONDS:
        return [warning(f"A commit takes {figures}: this disk is slow.", _SLOW)]
    if most >= SLOW_SECONDS:
        return [warning(f"A commit takes {figures}: good, with outliers.", _OUTLIERS)]
    return [good(f"A commit takes {figures}: good.")]


_NOT_FLUSHED = "It says nothing of the disk. Set fsync and synchronous_commit on, and ask again."
_LIES = (
    "Only a hint: a drive or a virtual disk may acknowledge a flush before it is one. Pull the plug in a test, or look "
    "for a write-back cache without a battery, cache=unsafe of a virtual machine, or a file system in memory."
)
_SLOW = (
    "Each accept and each seal waits for this. Put the log (pg_wal) on an SSD with power-loss protection, on a disk of "
    "its own, and in the same place as the service."
)
_OUTLIERS = "Something else uses this disk: give the log (pg_wal) one of its own."
