"""What is there, from the command line: queues, what they have to do, and what stops them."""

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from app.command.asking import Work, asking, options
from app.command.printing import print_json, print_table
from app.command.remote import Document, Remote

if TYPE_CHECKING:
    from app.command import Commands

_TURNS: Final = (
    "scheduled",
    "waiting",
    "queued",
    "processing",
    "parked",
    "held",
    "escalated",
    "sealed",
    "failed",
    "undelivered",
)

Row = tuple[object, ...]


def add(commands: "Commands", common: argparse.ArgumentParser) -> None:
    del common  # the service has the configuration
    family = commands.add_parser("queues", help="queues, their load, and what stops them")
    verbs = family.add_subparsers(required=True, metavar="VERB")
    found = verbs.add_parser("list", parents=[options()], help="by name; counts end at 1000")
    found.set_defaults(run=asking(listing("/v1/queues", (*_TURNS, "oldest queued"), _queue)))


def listing(path: str, heads: tuple[str, ...], row: Callable[[Document], Row]) -> Work:
    """Make a list of what a path shows: name, state, and what `row` says under `heads`."""

    async def work(remote: Remote, arguments: argparse.Namespace) -> int:
        answer = await remote.get(path)
        if arguments.json:
            print_json(answer)
            return 0
        rows = [(one["name"], _stopped(one), *row(one)) for one in answer["items"]]
        print_table(rows, heads=("name", "state", *heads))
        everything = answer["everything_paused"]
        if everything:
            print(f"sinksweep: everything is paused since {everything['at']}", file=sys.stderr)
        return 0

    return work


def _stopped(one: Document) -> str:
    why = [
        word
        for word, so in (("paused", one["paused"]), ("not configured", not one["configured"]))
        if so
    ]
    return ", ".join(why) or "open"


def seconds(value: float | None) -> str | None:
    """Spell a length of time."""
    return None if value is None else f"{value:.0f} s"


def _queue(one: Document) -> Row:
    return (*(one["turns"][state] for state in _TURNS), seconds(one["oldest_queued_seconds"]))
