"""`python -m tests.torture --minutes 30 --seed 7`: break everything for so long, then judge. Exit code 1: violations.

The logs are kept when there are violations, and where `--folder` names a place for them.
"""

import argparse
import asyncio
import secrets
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.torture.course import torture
from tests.torture.report import Report

SECONDS_A_MINUTE = 60.0


def main() -> int:
    """Run once, and print what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long there are faults")
    parser.add_argument("--seed", type=int, help="a run's faults can be had again by its seed")
    parser.add_argument("--folder", type=Path, help="where the logs go; it must be empty")
    parser.add_argument("--plant", help="a bug of `python -m tests.plants`, to see it found")
    wish = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if wish.seed is None else wish.seed
    folder = wish.folder or Path(tempfile.mkdtemp(prefix="sinksweep-torture-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        parser.error(f"{folder} is not empty")
    try:
        report = asyncio.run(_run(folder, seed=seed, wish=wish))
    except (asyncio.CancelledError, KeyboardInterrupt):
        print(f"Stopped; the logs are in {folder}")
        return 1
    print(*report.lines(), sep="\n")
    if report.violations:
        print(f"The logs are in {folder}; the same faults again: --seed {seed}")
    elif wish.folder is None:
        shutil.rmtree(folder)
    return 1 if report.violations else 0


async def _run(folder: Path, *, seed: int, wish: argparse.Namespace) -> Report:
    this = asyncio.current_task()
    assert this is not None
    # Ended from outside, it ends what it has started.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    return await torture(
        folder,
        seed=seed,
        seconds=wish.minutes * SECONDS_A_MINUTE,
        plant=wish.plant,
        say=lambda line: print(line, flush=True),
    )


if __name__ == "__main__":
    sys.exit(main())
