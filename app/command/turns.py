"""Turns from the command line: found, shown, cancelled, run again, one by one or all that match."""

import argparse
from typing import TYPE_CHECKING

from app.command import decisions, signals
from app.command.asking import ITEMS_DEFAULT, asking, for_each, options, positive, quoted, show_list
from app.command.bulk import add_bulk
from app.command.printing import print_fields, print_json, print_table
from app.command.remote import Document, Remote

if TYPE_CHECKING:
    from app.command import Commands

EVENTS_MAX = 10_000


def add(commands: "Commands", common: argparse.ArgumentParser) -> None:
    del common  # the service has the configuration
    parent = options()
    turns = commands.add_parser("turns", help="find, show, cancel and redrive turns")
    verbs = turns.add_subparsers(required=True, metavar="VERB")

    found = verbs.add_parser("list", parents=[parent], help="newest first")
    found.add_argument("--state", help="one, or several with commas between them")
    found.add_argument("--queue", help="of this queue")
    found.add_argument("--conversation", help="of this conversation")
    found.add_argument("--key", help="that this idempotency key stands for")
    found.add_argument("--root", metavar="TURN", help="that came of this turn by follow-ups")
    found.add_argument("--about", metavar="TURN", help="that told somebody of this turn")
    found.add_argument("--limit", type=positive, default=ITEMS_DEFAULT, help="how many at most")
    found.set_defaults(run=asking(_list))

    show = verbs.add_parser("show", parents=[parent], help="one turn with its messages")
    show.add_argument("id")
    show.add_argument("--events", action="store_true", help="with its whole story")
    show.set_defaults(run=asking(_show))

    cancel = verbs.add_parser(
        "cancel", parents=[parent], help="end turns, or what they have not delivered yet"
    )
    cancel.add_argument("ids", nargs="+", metavar="ID")
    cancel.set_defaults(run=asking(_cancel))

    redrive = verbs.add_parser("redrive", parents=[parent], help="give failed turns a new start")
    redrive.add_argument("ids", nargs="+", metavar="ID")
    redrive.set_defaults(run=asking(_redrive))

    decisions.add(verbs, parent)
    signals.add(verbs, parent)
    add_bulk(
        verbs,
        parent,
        path="/v1/turns/bulk",
        known=("cancel", "redrive"),
        filters=("queue", "conversation", "created_after", "created_before"),
    )


async def _list(remote: Remote, arguments: argparse.Namespace) -> int:
    filters = ("state", "queue", "conversation", "key", "root", "about")
    columns = ("id", "state", "queue", "conversation", "attempt", "created_at", "reason")
    return await show_list(remote, arguments, "/v1/turns", filters=filters, columns=columns)


async def _show(remote: Remote, arguments: argparse.Namespace) -> int:
    path = f"/v1/turns/{quoted(arguments.id)}"
    turn = await remote.get(path)
    if arguments.events:
        turn["events"], _ = await remote.items(f"{path}/events", {}, items_max=EVENTS_MAX)
    if arguments.json:
        print_json(turn)
        return 0
    print_fields(turn)
    if turn.get("messages"):
        print()
        waits = ("next_attempt_at", "blocked_by")
        names = ("id", "destination", "state", "attempts", *waits, "reason")
        print_table([[one[name] for name in names] for one in turn["messages"]], heads=names)
    if turn.get("follow_ups"):
        print()
        heads = ("turn", "queue", "conversation", "state", "key", "due_at")
        print_table([[one[name] for name in heads] for one in turn["follow_ups"]], heads=heads)
    if arguments.events:
        print()
        names = ("at", "verb", "from", "to", "attempt", "message", "reason")
        rows = [[*(one[name] for name in names), _who(one["detail"])] for one in turn["events"]]
        print_table(rows, heads=(*names, "who"))
    return 0


def _who(detail: Document) -> object:
    """The agent that claimed, or the key of the person who did it."""
    return detail.get("agent") or detail.get("by")


async def _cancel(remote: Remote, arguments: argparse.Namespace) -> int:
    return await for_each(remote, arguments, "/v1/turns/{id}/cancel")


async def _redrive(remote: Remote, arguments: argparse.Namespace) -> int:
    return await for_each(remote, arguments, "/v1/turns/{id}/redrive")
