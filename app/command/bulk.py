"""A verb over many from the command line: counted, begun, and watched to its end where that is wished."""

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Final

from app.command import EXIT_FAILED, EXIT_USAGE
from app.command.asking import asking
from app.command.printing import print_fields, print_json
from app.command.remote import Document, Remote

if TYPE_CHECKING:
    from app.command import Commands

POLL_SECONDS: Final = 1.0

_FILTERS: Final = {
    "queue": "of this queue",
    "conversation": "of this conversation",
    "destination": "to this destination",
    "created_after": "accepted at this time or later, as 2026-05-04T10:00:00Z",
    "created_before": "accepted before this time",
    "delivered_after": "of resend: confirmed at this time or later, as 2026-05-04T10:00:00Z",
    "delivered_before": "of resend: confirmed before this time",
}


def add_bulk(
    verbs: "Commands",
    parent: argparse.ArgumentParser,
    *,
    path: str,
    known: tuple[str, ...],
    filters: tuple[str, ...],
) -> None:
    """Add `bulk` to a family: its verbs, and what chooses."""
    bulk = verbs.add_parser(
        "bulk", parents=[parent], help="a verb over everything that matches, as an operation"
    )
    bulk.add_argument("bulk_verb", metavar="VERB", choices=known, help=", ".join(known))
    bulk.add_argument(
        "--state",
        action="append",
        help="one, or several with commas between them; without it all that the verb is for",
    )
    for name in filters:
        bulk.add_argument(f"--{name.replace('_', '-')}", dest=name, help=_FILTERS[name])
    bulk.add_argument("--with-reason", help="only what failed or ended with this reason")
    bulk.add_argument("--everything", action="store_true", help="without any of these filters")
    if "resolve" in known:
        bulk.add_argument(
            "--as", dest="outcome", choices=("delivered", "cancelled"), help="what resolve says"
        )
    bulk.add_argument("--dry-run", action="store_true", help="count, and change nothing")
    bulk.add_argument("--reason", help="why, for whoever looks later")
    bulk.add_argument("--wait", action="store_true", help="until it is done")
    bulk.set_defaults(run=asking(_bulk), path=path, filters=filters)


async def _bulk(remote: Remote, arguments: argparse.Namespace) -> int:
    outcome = getattr(arguments, "outcome", None)
    if arguments.bulk_verb == "resolve" and outcome is None:
        print("sinksweep: resolve needs --as delivered or --as cancelled", file=sys.stderr)
        return EXIT_USAGE
    chosen: dict[str, object] = {
        name: getattr(arguments, name)
        for name in arguments.filters
        if getattr(arguments, name) is not None
    }
    if arguments.state is not None:
        chosen["state"] = [state for given in arguments.state for state in given.split(",")]
    if arguments.with_reason is not None:
        chosen["reason"] = arguments.with_reason
    if arguments.everything:
        chosen["all"] = True
    if not chosen:
        print("sinksweep: what? Give a filter, or --everything", file=sys.stderr)
        return EXIT_USAGE
    body = {
        "verb": arguments.bulk_verb,
        "filter": chosen,
        "dry_run": arguments.dry_run,
        "reason": arguments.reason,
        "outcome": outcome,
    }
    answer = await remote.post(
        arguments.path, {name: value for name, value in body.items() if value is not None}
    )
    if arguments.dry_run:
        if arguments.json:
            print_json(answer)
        else:
            least = "at least " if answer["more"] else ""
            print(f"{least}{answer['found']} would be worked on.")
        return 0
    if not arguments.wait:
        show_operation(arguments, answer)
        return 0
    return await watch(remote, arguments, answer["id"])


async def watch(remote: Remote, arguments: argparse.Namespace, operation: str) -> int:
    """Tell how an operation goes until it ends; 1 if it did not do all that it was to."""
    shown = -1
    while True:
        answer = await remote.get(f"/v1/operations/{operation}")
        if answer["state"] != "running":
            show_operation(arguments, answer)
            return 0 if answer["state"] == "done" and not answer["failed"] else EXIT_FAILED
        if not arguments.json and answer["found"] != shown:
            shown = answer["found"]
            print(f"{answer['id']} is running: {shown} so far.", flush=True)
        await asyncio.sleep(POLL_SECONDS)


def show_operation(arguments: argparse.Namespace, operation: Document) -> None:
    """Print an operation."""
    if arguments.json:
        print_json(operation)
    else:
        print_fields(operation)
