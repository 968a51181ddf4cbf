"""Sources, from the command line: the URL of each, to paste where its provider asks for one, and how they are."""

import argparse
import sys
from typing import TYPE_CHECKING

from app.command import EXIT_FAILED, EXIT_USAGE, read_settings, run_to_the_end
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
    tested = verbs.add_parser(
        "test", parents=[common], help="try its URL, and say what is wrong; nothing is kept"
    )
    tested.add_argument("name", metavar="NAME")
    tested.add_argument("--json", action="store_true", help="for programs")
    tested.set_defaults(run=_test)


def _test(arguments: argparse.Namespace) -> int:
    """With the configuration and the secrets of this machine, and the service behind the source's own URL."""
    from app.command.source_trial import look_at
    from app.core import build_intakes, now

    settings = read_settings(arguments)
    intakes = build_intakes(settings)
    intake = intakes.get(arguments.name)
    if intake is None:
        known = ", ".join(sorted(intakes)) or "none"
        print(f"sinksweep: there is no such source; known here: {known}", file=sys.stderr)
        return EXIT_USAGE
    found = run_to_the_end(look_at(intake, settings, now()))
    is_good = all(one.what != "wrong" for one in found)
    if arguments.json:
        told = {"name": intake.name, "kind": intake.settings.kind, "good": is_good}
        print_json({**told, "found": [{"what": one.what, "words": one.words} for one in found]})
    else:
        print(f"{intake.name} ({intake.settings.kind}): {'good' if is_good else 'not good'}")
        for one in found:
            print(f"  {one.what}: {one.words}.")
    return 0 if is_good else EXIT_FAILED


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
