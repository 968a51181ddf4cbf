"""`python -m tests.bench`: the figures, as ratios beside what the database itself can do in the same run.

Repeats are interleaved (limit, ours, limit, ours ...), and a ratio is that of one repeat. `--quick` takes under three
minutes, the full run under twelve. The table is printed; `--json FILE` keeps every value, and `--page` puts the table
into docs/performance.md.
"""

import argparse
import asyncio
import json
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import uvloop

from tests.bench.extent import FULL, QUICK
from tests.bench.figures import Figures
from tests.bench.fleet import FLEET
from tests.bench.growing import GROWING
from tests.bench.scenarios import SCENARIOS
from tests.bench.stage import disk_sync_ms, machine, open_stage

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
FULL_REPEATS = 5
QUICK_REPEATS = 2
# What takes long is measured when it is asked for by name.
MORE = {**GROWING, **FLEET}
MINUTES_MAX = {False: 11.5, True: 2.8}


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short windows, two repeats")
    parser.add_argument("--repeat", type=int, help="how often everything is measured")
    names = {**SCENARIOS, **MORE}
    parser.add_argument("--only", choices=names, action="append", help="repeatable")
    parser.add_argument("--turns", type=int, action="append", help="finished turns: repeatable")
    parser.add_argument("--rate", type=int, action="append", help="accepts a second: repeatable")
    parser.add_argument("--crowd", type=int, help="conversations that wait, size of a storm")
    parser.add_argument("--folder", type=Path, help="where the data lies meanwhile: a real disk")
    parser.add_argument("--json", type=Path, help="where every value goes")
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    wish = parser.parse_args()
    try:
        uvloop.run(_run(wish))
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("Stopped.")
        return 1
    return 0


def between(page: str, figures: str) -> str:
    """The page with other figures between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{figures}\n\n{END}{after}"


async def _run(wish: argparse.Namespace) -> None:
    this = asyncio.current_task()
    assert this is not None
    # Ended from outside, it ends what it has started.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    extent = QUICK if wish.quick else FULL
    if wish.turns:
        extent = replace(extent, finished=tuple(wish.turns))
    if wish.rate:
        extent = replace(extent, rates=tuple(wish.rate))
    if wish.crowd:
        extent = replace(extent, crowd=wish.crowd)
    repeats = wish.repeat or (QUICK_REPEATS if wish.quick else FULL_REPEATS)
    until = time.monotonic() + 60 * MINUTES_MAX[wish.quick]
    figures, about, repeat = Figures(), list(machine()), 0
    async with open_stage(wish.folder) as stage:
        about += [
            stage.binaries.origin.partition(" of ")[0],
            f"one fdatasync {disk_sync_ms(stage.folder):.2f} ms",
        ]
        print(*about, sep=", ", flush=True)
        longest = 0.0
        while repeat < repeats and time.monotonic() + longest < until:
            began = time.monotonic()
            for name in wish.only or SCENARIOS:
                print(f"repeat {repeat + 1}: {name}", file=sys.stderr, flush=True)
                await {**SCENARIOS, **MORE}[name](stage, extent, figures)
            longest, repeat = max(longest, time.monotonic() - began), repeat + 1
    told_so = f"Medians of {repeat} repeats; ratios are within a repeat."
    print(f"\n{figures.table()}\n\n{told_so}")
    if wish.page:
        text = PAGE.read_text(encoding="utf-8")
        told_where = f"{', '.join(about)}. {told_so}"
        written = between(text, f"{told_where}\n\n{figures.table()}")
        PAGE.write_text(written, encoding="utf-8")
    if wish.json:
        told = {"about": about, "repeats": repeat, "figures": [one.plain() for one in figures]}
        wish.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
