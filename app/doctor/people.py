"""What waits for people, and whether they are told of it."""

from app.doctor.findings import Finding, good, shown, span, warning, wrong
from app.doctor.patient import Patient
from app.engine.asking import ROWS_MAX, open_holds, waiting_notices
from app.settings import has_holds, silences

# A hold that is open for so long has nobody who looks at it.
OLD_SECONDS = 43_200.0
# A notice is made a message of within a pass of the sweep: later, nobody sweeps.
TOLD_SECONDS_MAX = 60.0


def _counted(count: int) -> str:
    return str(count) if count < ROWS_MAX else f"{ROWS_MAX} or more"


async def check_holds(patient: Patient) -> list[Finding]:
    """What is held waits for a decision, and past its deadline still does."""
    findings: list[Finding] = []
    for one in await open_holds(patient.service):
        queue = patient.settings.queues.get(one.queue)
        name = shown(one.queue)
        advice = f"`sinksweep turns held --queue {name}`, then decide each."
        if one.state == "escalated":
            text = f"Turns of the queue {name} wait for a decision past their deadline: {_counted(one.count)}."
            findings.append(warning(text, advice))
        elif one.oldest_seconds >= OLD_SECONDS:
            text = (
                f"The oldest hold of the queue {name} has been open for {span(one.oldest_seconds)}."
            )
            findings.append(warning(text, advice))
        if queue is None:
            text = f"Turns are held in the queue {name}, which is not configured: their deadlines do not come."
            findings.append(
                warning(text, "Configure it again: a decision is possible all the same.")
            )
        elif queue.approvers is None and queue.escalate_to is None:
            text = f"Turns are {one.state} in the queue {name}, and nobody is told of it."
            advice = f"Set approvers, or escalate_to, of queues.{name}."
            findings.append(wrong(text, advice))
    return findings or [good("No hold has waited long, and somebody is told of each.")]


async def check_notices(patient: Patient) -> list[Finding]:
    """What somebody is to be told becomes a message with the next pass of the sweep."""
    findings: list[Finding] = []
    for one in await waiting_notices(patient.service):
        name, many = shown(one.queue), _counted(one.count)
        if one.queue not in patient.settings.queues:
            text = f"Somebody is to be told of the queue {name}, which is not configured: {many}."
            findings.append(
                warning(text, "Configure it on a replica that sweeps: until then it waits.")
            )
        elif one.oldest_seconds >= TOLD_SECONDS_MAX:
            text = f"Somebody has been to be told of the queue {name} for {span(one.oldest_seconds)}: {many}."
            advice = "Run a process with the role sweep, and look at its log and its readiness."
            findings.append(wrong(text, advice))
    return findings or [good("Whoever was to be told was told.")]


async def check_approvers(patient: Patient) -> list[Finding]:
    """A queue with holds names who is asked, and who hears of a deadline that nobody kept."""
    findings = [
        wrong(f"{fault}.", "Set it to a destination that somebody reads.")
        for fault in silences(patient.settings)
    ]
    for name, queue in patient.settings.queues.items():
        asks = queue.escalate_to is not None and has_holds(queue, patient.settings)
        if asks and queue.approvers is None:
            text = f"The queue {shown(name)} has holds and no approvers: who is told of failures is asked."
            findings.append(warning(text, f"Set approvers of queues.{shown(name)}."))
    return findings or [good("Each queue with holds names who is asked.")]
