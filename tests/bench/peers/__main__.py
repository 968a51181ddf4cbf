"""`python -m tests.bench.peers`: Sinksweep beside the libraries a team would take instead, in one run on one server.

Rounds go ours, two peers, ours, two peers, ours ... Before each side, inserts of one row show whether the machine was
quiet. Everything is kept in --json after each peer: a run that was ended goes on with --only for what lacks.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import uvloop

from tests.bench.peers.catalog import BY_NAME, Entry
from tests.bench.peers.contenders import Contender
from tests.bench.peers.environments import Missing, default_home, modules_of, node_of, python_of
from tests.bench.peers.measures import FULL, SMOKE, Extent, Values, measure
from tests.bench.peers.restate import Restate
from tests.bench.peers.results import Results, Round, mean
from tests.bench.peers.sides import Ours, Side
from tests.bench.pgbench import run_script
from tests.bench.stage import Stage, disk_sync_ms, machine, open_stage

REPEATS = 5
MINUTES_MAX = 24.0
PEERS_BETWEEN = 2
CALIBRATION = "create table public.calibration (id bigint generated always as identity, body text)"
INSERT = f"insert into public.calibration (body) values ('{'x' * 300}');\n"
CALIBRATION_CLIENTS = 8


def main() -> int:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    parser.add_argument("--only", choices=BY_NAME, action="append", help="repeatable")
    parser.add_argument("--repeat", type=int, default=REPEATS, help="how many rounds")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES_MAX, help="begin no round that would end later"
    )
    parser.add_argument("--home", type=Path, default=default_home(), help="environments of peers")
    parser.add_argument("--folder", type=Path, help="where the data lies meanwhile: a real disk")
    parser.add_argument("--json", type=Path, help="where every value goes, and what is there stays")
    parser.add_argument("--install", action="store_true", help="make the environments, and no more")
    parser.add_argument("--tables", action="store_true", help="print those of --json, and no more")
    parser.add_argument("--smoke", action="store_true", help="windows too short for a figure")
    wish = parser.parse_args()
    if wish.tables:
        print(Results.read(wish.json).tables())
        return 0
    try:
        uvloop.run(_run(wish))
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("Stopped; what was measured is kept." if wish.json else "Stopped.")
        return 1
    return 0


async def _run(wish: argparse.Namespace) -> None:
    this = asyncio.current_task()
    assert this is not None
    # Ended from outside, it ends what it has started.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    results = Results.read(wish.json)
    async with open_stage(wish.folder) as stage:
        peers = sides(wish.only or list(BY_NAME), stage, wish.home.resolve(), results)
        if wish.install:
            print(*[f"{name} is missing: {why}" for name, why in results.missing.items()], sep="\n")
            return
        results.about = [
            *machine(),
            stage.binaries.origin.partition(" of ")[0],
            f"one fdatasync {disk_sync_ms(stage.folder):.2f} ms",
        ]
        print(*results.about, sep=", ", flush=True)
        async with stage.database() as url:
            bench = Bench(stage, SMOKE if wish.smoke else FULL, url, results, wish.json)
            await bench.prepare()
            done = await bench.rounds(peers, wish.repeat, minutes_max=wish.minutes)
    print(f"\n{results.tables()}\n\n{done} rounds; {', '.join(results.about)}")


def side_of(entry: Entry, stage: Stage, home: Path, folder: Path) -> Side:
    """The peer, its environment made; raises Missing where that cannot be."""
    match entry.runs_in:
        case "ours":
            return Contender(entry, stage, folder, [sys.executable, str(entry.path)], {})
        case "python":
            python = python_of(entry.environment, home)
            return Contender(entry, stage, folder, [str(python), str(entry.path)], {})
        case "node":
            modules = modules_of(entry.environment, home)
            command = [str(node_of(modules)), str(entry.path)]
            return Contender(entry, stage, folder, command, {"modules": str(modules)})
        case "restate":
            python = python_of(entry.environment, home)
            command = [str(python), str(entry.path)]
            modules = modules_of("restate-server", home) / "@restatedev"
            server = modules / "restate-server-linux-x64" / "bin" / "restate-server"
            return Restate(entry, stage, folder, command, server)


def sides(names: Sequence[str], stage: Stage, home: Path, results: Results) -> Mapping[str, Side]:
    """The peers that can run here; why the others cannot is among the results."""
    results.forget([BY_NAME[name].name for name in names])
    found: dict[str, Side] = {}
    for name in names:
        entry = BY_NAME[name]
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=stage.folder))
        try:
            found[entry.name] = side_of(entry, stage, home, folder)
        except Missing as missing:
            results.missing[entry.name] = str(missing)
    return found


@dataclass(slots=True)
class Bench:
    """A run: rounds over all sides."""

    stage: Stage
    extent: Extent
    calibration_url: str
    results: Results
    json: Path | None

    async def prepare(self) -> None:
        """What calibrations insert into."""
        connection = await asyncpg.connect(self.calibration_url)
        await connection.execute(CALIBRATION)
        await connection.close()
        (self.stage.folder / "calibration.sql").write_text(INSERT, encoding="utf-8")

    async def rounds(self, peers: Mapping[str, Side], repeats: int, *, minutes_max: float) -> int:
        """So many rounds, or as many as there is time for; returns how many."""
        until, longest, done = time.monotonic() + 60 * minutes_max, 0.0, 0
        while done < repeats and time.monotonic() + longest < until:
            began = time.monotonic()
            print(f"round {done + 1}", file=sys.stderr, flush=True)
            await self.round(peers)
            longest, done = max(longest, time.monotonic() - began), done + 1
        return done

    async def round(self, peers: Mapping[str, Side]) -> None:
        """Ours, some peers, ours, and so on; a peer is kept once ours has been measured behind it."""
        ours = Ours(self.stage, self.stage.folder)
        before = (await self.one(ours)).values
        names = list(peers)
        for n in range(0, len(names), PEERS_BETWEEN):
            between = {name: await self.one(peers[name]) for name in names[n : n + PEERS_BETWEEN]}
            after = (await self.one(ours)).values
            for name, one in between.items():
                one.ours = mean(before, after)
                self.results.add(name, one)
            before = after
            if self.json is not None:
                self.results.write(self.json)

    async def one(self, side: Side) -> Round:
        """One side once, directly behind a calibration."""
        calibration = await run_script(
            self.stage.folder / "calibration.sql",
            url=self.calibration_url,
            binaries=self.stage.binaries,
            clients=CALIBRATION_CLIENTS,
            seconds=1.0,
        )
        values, failed = await measure(side, self.stage, self.extent)
        print(f"{side.name}: {_told(values)}", *failed.values(), file=sys.stderr, flush=True)
        return Round(values, {}, calibration, failed)


def _told(values: Values) -> str:
    return ", ".join(f"{name} {value:,.1f}" for name, value in values.items())


if __name__ == "__main__":
    sys.exit(main())
