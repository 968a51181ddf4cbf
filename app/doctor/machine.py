"""What this machine and this account let a process of the service do."""

import resource

from app.doctor.findings import Finding, good, warning
from app.doctor.patient import Patient

# Files that a process has open beside its connections.
FILES_SPARE = 1000


async def check_open_files(patient: Patient) -> list[Finding]:
    """The service raises its own limit as far as the account may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = patient.settings.server.connections_max + FILES_SPARE
    if hard != resource.RLIM_INFINITY and hard < wanted:
        text = f"A process may open {hard} files, and server.connections_max needs {wanted}."
        advice = (
            "Raise the limit (ulimit -Hn, LimitNOFILE of systemd), or lower server.connections_max."
        )
        return [warning(text, advice)]
    return [good(f"A process may open as many files as it needs ({wanted}).")]


async def check_listening(patient: Patient) -> list[Finding]:
    """Plain HTTP on every interface is for a place with something in front."""
    host = patient.settings.host
    if host in ("127.0.0.1", "::1", "localhost"):
        return [good("The service listens on this machine alone.")]
    text = "The service listens to other machines, in plain HTTP."
    return [
        warning(
            text,
            "Put TLS in front of it (a gateway or a mesh), and let nobody else reach the port.",
        )
    ]
