"""Sources, from the command line: the URL of each, to paste where its provider asks for one, and how they are."""

import argparse
from typing import TYPE_CHECKING

from app.command import read_settings
from app.command.asking import asking, options
from app.command.overviews import Row, listing, seconds
from app.command.printing import print_json, print_table
from app.command.remote import Document

if TYPE_CHECKING:
    from app.command import Commands


def add(commands: "Commands", common: argparse.ArgumentParser) -> None:
    family = commands.add_parser(
        "sources", parents=[common], help="the URL of each source, to paste at its provider"
    )
    family.add_argument("--json", action="store_true", help="for programs")
    family.set_defaults(run=_urls)
    verbs = family.add_subparsers(metavar="VERB")
    found = verbs.add_parser("list", parents=[options()], help="their load, and what stops them")
    heads = ("kind", "queue", "held", "oldest held", "missing")
    found.set_defaults(run=asking(listing("/v1/sources", heads, _row)))


def _urls(arguments: argparse.Namespace) -> int:
    """Print what the configuration says: no service is asked, so that it may be pasted before there is one."""
    from app.core import build_intakes

    intakes = build_intakes(read_settings(arguments))
    told = [
        {
            "name": name,
            "kind": intake.settings.kind,
            "url": None if intake.provider.is_timed else intake.public_url,
            "setup": intake.provider.sheet.setup,
            "missing": intake.missing(),
        }
        for name, intake in sorted(intakes.items())
    ]
    if arguments.json:
        print_json({"items": told})
        return 0
    rows = [
        (one["name"], one["kind"], one["url"] or "asked by the clock", _ready(one)) for one in told
    ]
    print_table(rows, heads=("name", "kind", "paste this", "state"))
    for kind, setup in sorted({str(one["kind"]): str(one["setup"]) for one in told}.items()):
        print(f"{kind}: {setup}.")
    if not told:
        print("No source is configured: see docs/sources.md.")
    return 0


def _ready(one: Document) -> str:
    missing = ", ".join(one["missing"])
    return f"not ready: {missing} leads to nothing" if missing else "ready"


def _row(one: Document) -> Row:
    missing = ", ".join(one["missing"]) or None
    return one["kind"], one["queue"], one["held"], seconds(one["oldest_held_seconds"]), missing
