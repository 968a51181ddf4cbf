"""What the data lies on, as far as it is on this machine, and whether there is room left."""

import asyncio
import os
import shutil
from pathlib import Path

from app.doctor.findings import Finding, amount, good, skipped, warning, wrong
from app.doctor.patient import Patient
from app.engine.diagnose import find_server, find_settings

MOUNTS = Path("/proc/self/mounts")
FREE_BYTES_MIN = 1 << 30
FREE_SHARE_MIN = 0.10

# Gone with the next start, and gone with the container.
IN_MEMORY = frozenset({"tmpfs", "ramfs"})
IN_LAYERS = frozenset({"overlay", "aufs", "overlayfs"})
# Whether a flush is one depends on the server and on how it was mounted.
OVER_A_NETWORK = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "virtiofs",
        "ceph",
        "glusterfs",
        "vboxsf",
        "sshfs",
    }
)


async def _data_folder(patient: Patient) -> tuple[Path | None, str]:
    """The server's folder where it can be looked at from here, or why it cannot."""
    if not (await find_server(patient.login)).is_here:
        return (
            None,
            "The server is another machine or container: its disk cannot be seen from here.",
        )
    told = (await find_settings(patient.login, "data_directory")).get("data_directory")
    if not told:
        return (
            None,
            "The server does not tell this login where its data lies (pg_monitor would see it).",
        )
    if not await asyncio.to_thread(os.path.exists, told):
        return None, "The folder of the server's data cannot be seen by this account."
    return Path(told), ""


def file_system_of(folder: Path, *, mounts: str) -> str:
    """The kind of the file system that a folder lies on, by the table of mounts (that of /proc/self/mounts)."""
    found, kind = "", "unknown"
    for line in mounts.splitlines():
        _, _, rest = line.partition(" ")
        point, _, options = rest.partition(" ")
        point = point.encode().decode("unicode_escape")
        inside = str(folder) == point or str(folder).startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(found):
            found, kind = point, options.partition(" ")[0]
    return kind


def judge_file_system(kind: str) -> Finding:
    """What data on such a file system survives."""
    if kind in IN_MEMORY:
        text = f"The server's data lies in memory ({kind}): it is gone when the machine stops."
        return wrong(text, "Move the data directory to a disk.")
    if kind in IN_LAYERS:
        text = f"The server's data lies in a container's own layer ({kind}): it goes with the container."
        return warning(text, "Mount a volume at the data directory.")
    if kind in OVER_A_NETWORK or kind.startswith("fuse"):
        text = f"The server's data lies on a network or shared file system ({kind})."
        advice = "A flush may not be one there, and a cut connection stops the server: use a local or block disk."
        return warning(text, advice)
    return good(f"The server's data lies on {kind}.")


async def check_file_system(patient: Patient) -> list[Finding]:
    """Looked up in this machine's mounts: a server elsewhere cannot be judged from here."""
    folder, why = await _data_folder(patient)
    if folder is None:
        return [skipped(why)]
    try:
        mounts = await asyncio.to_thread(MOUNTS.read_text, encoding="utf-8", errors="replace")
    except OSError:
        return [skipped("This system has no table of mounts to look it up in.")]
    real = await asyncio.to_thread(folder.resolve)
    return [judge_file_system(file_system_of(real, mounts=mounts))]


def judge_space(*, free: int, total: int) -> Finding:
    """A server that cannot write its log stops."""
    text = f"{amount(free)} of {amount(total)} are free where the server's data lies."
    if free < FREE_BYTES_MIN:
        return wrong(text, "A server that cannot write its log stops: make room now.")
    if free < FREE_SHARE_MIN * total:
        return warning(text, "Make room, or let what is finished be kept for less long.")
    return good(text)


async def check_space(patient: Patient) -> list[Finding]:
    """Only where the data lies on this machine."""
    folder, why = await _data_folder(patient)
    if folder is None:
        return [skipped(why)]
    usage = await asyncio.to_thread(shutil.disk_usage, folder)
    return [judge_space(free=usage.free, total=usage.total)]
