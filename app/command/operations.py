"""Operations over many from the command line: listed, watched, and stopped."""

import argparse
from typing import TYPE_CHECKING

from app.command.asking import ITEMS_DEFAULT, asking, for_each, options, positive, quoted, show_list
from app.command.bulk import show_operation, watch
from app.command.remote import Remote

if TYPE_CHECKING:
    from app.command import Commands


def add(commands: "Commands", common: argparse.ArgumentParser) -> None:
    del common  # the service has the configuration
    parent = options()
    operations = commands.add_parser("operations", help="watch and stop what `bulk` has begun")
    verbs = operations.add_subparsers(required=True, metavar="VERB")

    found = verbs.add_parser("list", parents=[parent], help="newest first")
    found.add_argument("--limit", type=positive, default=ITEMS_DEFAULT, help="how many at most")
    found.set_defaults(run=asking(_list))

    show = verbs.add_parser("show", parents=[parent], help="how far one is")
    show.add_argument("id")
    show.add_argument("--wait", action="store_true", help="until it is done")
    show.set_defaults(run=asking(_show))

    cancel = verbs.add_parser(
        "cancel", parents=[parent], help="stop it; what it has done stays done"
    )
    cancel.add_argument("ids", nargs="+", metavar="ID")
    cancel.set_defaults(run=asking(_cancel))


async def _list(remote: Remote, arguments: argparse.Namespace) -> int:
    counts = ("found", "changed", "refused", "failed")
    columns = ("id", "state", "verb", "kind", *counts, "created_at", "reason")
    return await show_list(remote, arguments, "/v1/operations", columns=columns)


async def _show(remote: Remote, arguments: argparse.Namespace) -> int:
    operation = quoted(arguments.id)
    if arguments.wait:
        return await watch(remote, arguments, operation)
    show_operation(arguments, await remote.get(f"/v1/operations/{operation}"))
    return 0


async def _cancel(remote: Remote, arguments: argparse.Namespace) -> int:
    return await for_each(remote, arguments, "/v1/operations/{id}/cancel")
