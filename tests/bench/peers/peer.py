"""What every peer is given, and how it is called."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.peers.catalog import Entry
from tests.bench.stage import Stage


@dataclass(slots=True)
class Peer:
    """A library one could take instead. `command` begins its program."""

    entry: Entry
    stage: Stage
    folder: Path
    command: Sequence[str]

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def backlog(self) -> int:
        return self.entry.backlog
