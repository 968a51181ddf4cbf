"""A verb over many from the command line: counted, begun, and watched to its end where that is wished."""

import argparse
import asyncio
from typing import TYPE_CHECKING, Final

from app.command import EXIT_FAILED
from app.command.asking import asking
from app.command.printing import print_fields, print_json
from app.command.remote import Document, Remote

if TYPE_CHECKING:
    from app.command import Commands

POLL_SECONDS: Final = 1.0


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
    bulk.add_argument("--state", action="append", help="repeatable; none: all that the verb is for")
    for name in filters:
        bulk.add_argument(f"--{name.replace('_', '-')}", dest=name, help="only what has this")
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
    chosen: dict[str, object] = {
        name: getattr(arguments, name)
        for name in ("state", *arguments.filters)
        if getattr(arguments, name) is not None
    }
    if arguments.with_reason is not None:
        chosen["reason"] = arguments.with_reason
    if arguments.everything:
        chosen["all"] = True
    body = {
        "verb": arguments.bulk_verb,
        "filter": chosen,
        "dry_run": arguments.dry_run,
        "reason": arguments.reason,
        "outcome": getattr(arguments, "outcome", None),
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
