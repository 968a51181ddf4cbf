"""What processes use, from /proc (Linux): processor time with that of their children, and memory."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def _fields(pid: int) -> list[str]:
    """The numbered fields of its stat, from the state on; none of a process that has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()


def family(roots: Iterable[int]) -> Iterator[int]:
    """These processes and all that descend from them."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and (fields := _fields(int(path.name))):
            children.setdefault(int(fields[1]), []).append(int(path.name))
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children.get(pid, [])


def cpu_seconds(*roots: int) -> float:
    """What they and their descendants have used, those included that have ended and were waited for."""
    used = 0
    for pid in family(roots):
        if fields := _fields(pid):
            used += sum(int(fields[n]) for n in (11, 12, 13, 14))
    return used / TICKS_A_SECOND


def resident_mb(*roots: int) -> float:
    """What they and their descendants have in memory, in MB."""
    pages = sum(int(fields[21]) for pid in family(roots) if (fields := _fields(pid)))
    return pages * PAGE_BYTES / (1 << 20)
