"""What is in the tables: work that stands, names that nobody configured, and what was stopped."""

from app.doctor.findings import Finding, good, shown, span, warning, wrong
from app.doctor.patient import Patient
from app.engine.diagnose import find_breakers, find_overdue, kept_longest_seconds
from app.engine.inspect import oldest_pending_seconds, oldest_queued_seconds
from app.engine.overview import COUNT_MAX, destination_load, names_in_use
from app.engine.pause import find_pauses

# Leases are put back within a pass of the sweep: later, nobody sweeps.
SWEPT_SECONDS_MAX = 60.0
# What is due for so long has nobody who takes it.
OLD_SECONDS = 900.0
NAMES_SHOWN_MAX = 10
DAY_SECONDS = 86_400.0
# A purge that has fallen behind by a day catches up no more by itself.
RETENTION_LATE_SECONDS = DAY_SECONDS


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
    return ", ".join(shown(name) for name in names[:NAMES_SHOWN_MAX]) + more


async def check_names(patient: Patient) -> list[Finding]:
    """What belongs to a name that is not configured here waits for ever: it never dies, and never moves."""
    live = await names_in_use(patient.service)
    findings: list[Finding] = []
    for kind, known in (
        ("queue", patient.settings.queues.keys()),
        ("destination", patient.routes.keys()),
    ):
        named = live[kind]
        unknown = sorted(set(named) - set(known))
        if unknown:
            text = f"Work is there for {kind}s that are not configured: {_listed(unknown)}."
            advice = "Configure them again, or cancel what is left: until then it waits."
            findings.append(warning(text, advice))
    return findings or [
        good("Everything that waits belongs to a queue and a destination that are configured.")
    ]


async def check_breakers(patient: Patient) -> list[Finding]:
    """An open breaker keeps messages until its destination recovers; a disabled one until somebody resumes it."""
    findings: list[Finding] = []
    for one in await find_breakers(patient.service):
        why = f" ({shown(one.reason)})" if one.reason else ""
        if one.state == "disabled":
            text = f"The destination {shown(one.name)} has been disabled for {span(one.open_seconds)}{why}."
            advice = (
                "It answered 410. Correct it, then `sinksweep resume --destination` with its name."
            )
            findings.append(warning(text, advice))
        else:
            how = f"{one.state}, for {span(one.open_seconds)} now{why}"
            text = f"The breaker of the destination {shown(one.name)} is {how}."
            findings.append(
                warning(text, "Its messages wait and it is probed: look at the receiver.")
            )
    return findings or [good("No breaker is open.")]


async def check_pauses(patient: Patient) -> list[Finding]:
    """What people stopped stays stopped until people let it go on."""
    findings: list[Finding] = []
    for one in (await find_pauses(patient.service)).values():
        what = "Everything" if one.kind == "all" else f"The {one.kind} {shown(one.name)}"
        since = f"{one.at:%Y-%m-%dT%H:%M:%SZ}"
        text = f"{what} is paused since {since}."
        options = "--all" if one.kind == "all" else f"--{one.kind} {shown(one.name)}"
        advice = f"When its reason is over: `sinksweep resume {options}`."
        findings.append(warning(text, advice))
    return findings or [good("Nothing is paused.")]


async def check_sweep(patient: Patient) -> list[Finding]:
    """What a crash stranded is put back by a process with the role `sweep`."""
    stuck = await find_overdue(patient.service, patient.settings.queues)
    late = {
        "A turn's lease is over": stuck.turn_seconds,
        "A message's lease is over": stuck.message_seconds,
        "A scheduled turn is due": stuck.scheduled_seconds,
        "The deadline of a hold or a park is over": stuck.deadline_seconds,
    }
    findings = [
        wrong(
            f"{words} for {span(seconds)}, and nobody has seen to it.",
            "Run a process with the role sweep, and look at its log and its readiness.",
        )
        for words, seconds in late.items()
        if seconds is not None and seconds >= SWEPT_SECONDS_MAX
    ]
    return findings or [good("The sweep keeps up.")]


async def check_retention(patient: Patient) -> list[Finding]:
    """What ended long ago is purged by a process with the role `sweep`, a little at a time."""
    kept = await kept_longest_seconds(patient.service)
    retention = patient.settings.retention
    due = retention.turns_days * DAY_SECONDS + 2 * retention.interval_seconds
    if kept is not None and kept > due + RETENTION_LATE_SECONDS:
        text = f"A turn that ended {span(kept)} ago is still here: it is to be kept for {retention.turns_days} days."
        advice = "Run a process with the role sweep; raise retention.share_max or retention.batch_max if it does run."
        return [warning(text, advice)]
    return [good("What has ended is not kept for longer than it should be.")]


async def check_queues(patient: Patient) -> list[Finding]:
    """A turn that is due is claimed by an agent, if there is one."""
    paused = await find_pauses(patient.service)
    ages = await oldest_queued_seconds(patient.service, list(patient.settings.queues))
    findings = [
        warning(
            f"The oldest turn of the queue {name} has been due for {span(age)}"
            + (" (it is paused)." if ("queue", name) in paused or ("all", "") in paused else "."),
            "Look whether its agents run and claim this queue, and whether they keep up.",
        )
        for name, age in sorted(ages.items())
        if age >= OLD_SECONDS
    ]
    return findings or [good("No turn has waited long for an agent.")]


async def check_deliveries(patient: Patient) -> list[Finding]:
    """A message that is due is sent, if a process with the role `deliver` runs."""
    ages = await oldest_pending_seconds(patient.service, list(patient.routes))
    findings = [
        warning(
            f"The oldest message for the destination {name} has been due for {span(age)}.",
            "Look whether a process with the role deliver runs, and for a pause or an open breaker.",
        )
        for name, age in sorted(ages.items())
        if age >= OLD_SECONDS
    ]
    return findings or [good("No message has waited long to be sent.")]


async def check_dead(patient: Patient) -> list[Finding]:
    """What is dead or unknown waits for a person."""
    load = await destination_load(patient.service, list(patient.routes))
    counted = [
        (name, state, one[state])
        for name, one in sorted(load.items())
        for state in ("dead", "unknown")
    ]
    findings = [
        warning(
            f"Messages for the destination {name} that are {state}: "
            f"{count if count < COUNT_MAX else f'{COUNT_MAX} or more'}.",
            f"`sinksweep outbox list --state {state} --destination {name}`, then redrive, resolve or cancel them.",
        )
        for name, state, count in counted
        if count
    ]
    return findings or [good("No message waits for a person.")]
