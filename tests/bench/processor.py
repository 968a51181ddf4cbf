"""`python -m tests.bench.processor`: what a request, or a message that is sent, costs the Python of the service.

All of it is processor time. With `--beside TREE` another checkout does the same, window by window in turn, and the
ratio is taken within a pair of windows. A figure is the least of all windows: on a machine that others use too, that is
what nobody disturbed.
"""

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from tests.bench.alone import CALLS

ROOT: Final = Path(__file__).parents[2]
REQUESTS: Final = 300
SEND: Final = "send"
WINDOWS: Final = 60


class Service:
    """The service of one checkout, in a process of its own; see `alone.py`, and `sending.py`."""

    def __init__(self, tree: Path, script: str) -> None:
        # By its path and without its folder: the other tree has its own `tests`, or an older one.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(ROOT / "tests" / "bench" / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(tree)},  # noqa: TID251 - of a process of the bench
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def window(self, call: str, count: int) -> float:
        """Microseconds of processor time for each of so many requests."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{call} {count}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


def measure(
    trees: Sequence[Path], calls: Sequence[str], *, windows: int, count: int
) -> dict[str, list[list[float]]]:
    """For each call the windows of each tree, in turn; the first of each is thrown away."""
    took: dict[str, list[list[float]]] = {call: [[] for _ in trees] for call in calls}
    scripts = {call: "sending.py" if call == SEND else "alone.py" for call in calls}
    with ExitStack() as stack:
        services = {
            script: [stack.enter_context(Service(tree, script)) for tree in trees]
            for script in sorted(set(scripts.values()))
        }
        for n in range(windows + 1):
            for call in calls:
                for service, own in zip(services[scripts[call]], took[call], strict=True):
                    microseconds = service.window(call, count)
                    if n:
                        own.append(microseconds)
    return took


def told(call: str, took: Sequence[Sequence[float]]) -> str:
    """A line of the table."""
    ours = took[0]
    if len(took) == 1:
        return f"| {call} | {min(ours):.1f} us | | |"
    other = took[1]
    ratios = statistics.quantiles([a / b for a, b in zip(ours, other, strict=True)], n=4)
    spread = f"{ratios[1]:.2f} ({ratios[0]:.2f} - {ratios[2]:.2f})"
    return f"| {call} | {min(ours):.1f} us | {min(other):.1f} us | {spread} |"


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.processor", description=__doc__)
    parser.add_argument("--beside", type=Path, help="another checkout, measured in turn")
    parser.add_argument("--only", choices=(*CALLS, SEND), action="append", help="repeatable")
    parser.add_argument("--windows", type=int, default=WINDOWS)
    parser.add_argument("--requests", type=int, default=REQUESTS, help="in each window")
    wish = parser.parse_args()
    trees = [ROOT, *([wish.beside.resolve()] if wish.beside else [])]
    took = measure(trees, wish.only or (*CALLS, SEND), windows=wish.windows, count=wish.requests)
    print("| call | here | beside | ratio, quartiles |", "|---|---|---|---|", sep="\n")
    for call, windows in took.items():
        print(told(call, windows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
