"""`python -m tests.bench.flames CALL FILE`: where the processor time of a call goes, as a flame graph.

Samples of the process's own stack, one for each millisecond of processor time, of the service without a database
(`alone.py`). A box is as wide as the share of samples that it was in.
"""

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import FrameType
from typing import Final

import uvloop

from tests.bench.alone import CALLS, Alone, alone

REQUESTS: Final = 20_000
INTERVAL_SECONDS: Final = 0.001
ROOT: Final = Path(__file__).parents[2]
WIDTH: Final = 1200
ROW: Final = 18
LEAST_SHARE: Final = 0.004
CHARACTER: Final = 6.6
# Ours, the server's and the framework's, the rest.
COLORS: Final = (
    ("app/", "#e8762c"),
    ("uvicorn/", "#e8b62c"),
    ("starlette/", "#e8b62c"),
    ("", "#d9cfa8"),
)


@dataclass(slots=True)
class Box:
    """A function as it was called from the one below it."""

    name: str
    path: str = ""
    samples: int = 0
    above: dict[str, "Box"] = field(default_factory=dict)

    def add(self, frames: list[FrameType]) -> None:
        """Count a stack, whose outermost frame is the last."""
        box = self
        box.samples += 1
        for frame in reversed(frames):
            code = frame.f_code
            box = box.above.setdefault(
                f"{code.co_filename} {code.co_qualname}", Box(code.co_qualname, code.co_filename)
            )
            box.samples += 1


@contextmanager
def sampled(box: Box) -> Iterator[None]:
    """Sample this process meanwhile."""

    def sample(_signal: int, frame: FrameType | None) -> None:
        stack: list[FrameType] = []
        while frame is not None and not frame.f_code.co_filename.endswith("asyncio/runners.py"):
            stack.append(frame)
            frame = frame.f_back
        box.add(stack)

    before = signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_SECONDS, INTERVAL_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def laid_out(box: Box, total: int, at: float, row: int) -> Iterator[tuple[Box, float, int]]:
    """The boxes from this one up, each with where it begins and its row."""
    if box.samples / total < LEAST_SHARE:
        return
    yield box, at, row
    for above in sorted(box.above.values(), key=lambda one: -one.samples):
        yield from laid_out(above, total, at, row + 1)
        at += WIDTH * above.samples / total


def picture(box: Box) -> str:
    """The whole graph, as SVG."""
    boxes = list(laid_out(box, box.samples, 0.0, 0))
    height = ROW * (1 + max(row for _, _, row in boxes))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
    lines = [f'{head} font-family="monospace" font-size="11">']
    for one, at, row in boxes:
        share = one.samples / box.samples
        width, y = WIDTH * share, height - ROW * (row + 1)
        color = next(color for part, color in COLORS if part in one.path)
        # Where it is in its package: no path of this machine.
        where = "/".join(Path(one.path).parts[-3:]).removeprefix(f"{ROOT.name}/")
        lines += [
            f"<g><title>{escape(one.name)}, {escape(where)}: {100 * share:.1f} %</title>",
            f'<rect x="{at:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 1}" fill="{color}"/>',
            f'<text x="{at + 3:.1f}" y="{y + 13}">{escape(one.name[: int(width / CHARACTER)])}</text></g>',
        ]
    return "\n".join([*lines, "</svg>", ""])


async def sample_call(service: Alone, call: str, count: int) -> Box:
    """The stacks of so many requests, behind as many that are not counted."""
    await service.window(call, count // 10)
    box = Box(f"POST, {call}")
    with sampled(box):
        await service.window(call, count)
    return box


async def _run(call: str, file: Path) -> None:
    async with alone() as service:
        box = await sample_call(service, call, REQUESTS)
    file.write_text(picture(box), encoding="utf-8")


def main() -> int:
    """Sample, and write the graph."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.flames", description=__doc__)
    parser.add_argument("call", choices=CALLS)
    parser.add_argument("file", type=Path)
    wish = parser.parse_args()
    uvloop.run(_run(wish.call, wish.file))
    return 0


if __name__ == "__main__":
    sys.exit(main())
