"""What the sources need to verify anything, and whether what they call an id is one."""

from app.doctor.findings import Finding, good, shown, skipped, warning, wrong
from app.doctor.patient import Patient
from app.engine.differing import find_differing

DIFFERENT_MAX = 3


async def check_sources(patient: Patient) -> list[Finding]:
    """A pointer that leads to nothing makes its source answer that it is not ready."""
    findings: list[Finding] = []
    for name, intake in sorted(patient.intakes.items()):
        for pointer in intake.missing():
            text = f"The pointer {pointer} of the source {name} leads to nothing."
            advice = "Bring the variable or the file, readable by this account: until then it is told to retry."
            findings.append(wrong(text, advice))
    if not patient.intakes:
        return [skipped("There is no source: inbound come over the plain API alone.")]
    if any(not one.provider.is_timed for one in patient.intakes.values()):
        url = patient.settings.server.public_url or ""
        if not url:
            advice = "Set server.public_url: what `sinksweep sources` prints is an address of this machine."
            findings.append(warning("No public URL is configured.", advice))
        elif url.startswith("http://"):
            advice = "Put TLS in front: some of what providers send is a secret."
            findings.append(warning("The public URL begins with http://.", advice))
    return findings or [good(f"{len(patient.intakes)} sources, and each has its secrets.")]


async def check_ids(patient: Patient) -> list[Finding]:
    """Many bodies under one key tell that it is no id: what comes under it is taken for a duplicate."""
    found = await find_differing(patient.service, sorted(patient.intakes))
    findings = [
        warning(
            f"{one.different} other bodies came under the key {shown(one.key)} of the source {one.source}.",
            "Look whether its provider sends the same id for different events: then its id is configured wrongly.",
        )
        for one in found
        if one.different > DIFFERENT_MAX
    ]
    return findings or [good("No key of a source stands for many bodies.")]
