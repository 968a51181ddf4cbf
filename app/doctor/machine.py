"""What this machine and this account let a process of the service do."""

import resource

from app.doctor.findings import Finding, good, warning
from app.doctor.patient import Patient


async def check_open_files(patient: Patient) -> list[Finding]:
    """The service raises its own limit as far as the account may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = patient.settings.server.files_max
    if hard != resource.RLIM_INFINITY and hard < wanted:
        text = f"A process may open {hard} files, and server.connections_max needs {wanted}."
        advice = (
            "Raise the limit (ulimit -Hn, LimitNOFILE of systemd), or lower server.connections_max."
        )
        return [warning(text, advice)]
    return [good(f"A process may open as many files as it needs ({wanted}).")]
