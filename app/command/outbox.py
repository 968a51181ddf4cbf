"""Outbox messages from the command line: found, shown, and put right, one by one or all that match."""

import argparse
from typing import TYPE_CHECKING

from app.command.asking import (
    ITEMS_DEFAULT,
    SAID,
    Work,
    asking,
    for_each,
    options,
    positive,
    quoted,
    show_list,
)
from app.command.bulk import add_bulk
from app.command.printing import print_fields, print_json, print_table
from app.command.remote import Remote

if TYPE_CHECKING:
    from app.command import Commands

_VERBS = (
    ("cancel", "send messages no more"),
    ("redrive", "send dead or unknown messages again, under their old keys"),
    ("resend", "send delivered messages once more, under their old keys"),
)


def add(commands: "Commands", common: argparse.ArgumentParser) -> None:
    del common  # the service has the configuration
    parent = options()
    outbox = commands.add_parser("outbox", help="find, show and put right outbox messages")
    verbs = outbox.add_subparsers(required=True, metavar="VERB")

    found = verbs.add_parser("list", parents=[parent], help="newest first")
    found.add_argument("--state", help="one, or several with commas between them")
    found.add_argument("--queue", help="of this queue")
    found.add_argument("--destination", help="to this destination")
    found.add_argument("--turn", help="of this turn")
    found.add_argument("--limit", type=positive, default=ITEMS_DEFAULT, help="how many at most")
    found.set_defaults(run=asking(_list))

    show = verbs.add_parser("show", parents=[parent], help="one message with every attempt at it")
    show.add_argument("id")
    show.set_defaults(run=asking(_show))

    for verb, words in _VERBS:
        one = verbs.add_parser(verb, parents=[parent], help=words)
        one.add_argument("ids", nargs="+", metavar="ID")
        one.set_defaults(run=asking(_posting(verb)))
    resolve = verbs.add_parser(
        "resolve", parents=[parent], help="say what became of messages whose outcome is unknown"
    )
    resolve.add_argument("ids", nargs="+", metavar="ID")
    resolve.add_argument("--as", dest="outcome", choices=("delivered", "cancelled"), required=True)
    resolve.set_defaults(run=asking(_resolve))

    add_bulk(
        verbs,
        parent,
        path="/v1/outbox/bulk",
        known=("cancel", "redrive", "resolve", "resend"),
        filters=("queue", "destination", "delivered_after", "delivered_before"),
    )


async def _list(remote: Remote, arguments: argparse.Namespace) -> int:
    filters = ("state", "queue", "destination", "turn")
    columns = ("id", "state", "destination", "queue", "attempts", "sealed_at", "reason")
    return await show_list(remote, arguments, "/v1/outbox", filters=filters, columns=columns)


async def _show(remote: Remote, arguments: argparse.Namespace) -> int:
    message = await remote.get(f"/v1/outbox/{quoted(arguments.id)}")
    if arguments.json:
        print_json(message)
        return 0
    # What it says may be anything: it is for programs.
    print_fields({n: v for n, v in message.items() if n not in ("payload", "payload_base64")})
    if message["attempt_log"]:
        print()
        names = ("attempt", "started_at", "ended_at", "state", "status", "reason", "receipt")
        rows = [
            [*(one[name] for name in names), "yes" if one["resend"] else None]
            for one in message["attempt_log"]
        ]
        print_table(rows, heads=(*names, "resend"))
    return 0


def _posting(verb: str) -> Work:
    async def work(remote: Remote, arguments: argparse.Namespace) -> int:
        # What is sent once more stays delivered.
        said = "{id} will be sent once more." if verb == "resend" else SAID
        return await for_each(remote, arguments, f"/v1/outbox/{{id}}/{verb}", said=said)

    return work


async def _resolve(remote: Remote, arguments: argparse.Namespace) -> int:
    body = {"state": arguments.outcome}
    return await for_each(remote, arguments, "/v1/outbox/{id}/resolve", body=body)
