"""Decisions from the command line: what waits for one, what it is about, and the decision itself."""

import argparse
import base64
from typing import TYPE_CHECKING

from app.command.asking import ITEMS_DEFAULT, asking, positive, query_of, quoted
from app.command.printing import print_fields, print_json, print_more, print_table, print_text
from app.command.remote import Document, Remote

if TYPE_CHECKING:
    from app.command import Commands

_WAITING = "held,escalated"
_COLUMNS = ("id", "state", "queue", "conversation", "deadline_at", "payload_hash", "note")
_DECIDED = ("turn", "state", "decision", "by", "at", "comment", "payload_hash", "new_hash")


def add(verbs: "Commands", parent: argparse.ArgumentParser) -> None:
    """The verbs about what is held, beside those about turns."""
    held = verbs.add_parser(
        "held", parents=[parent], help="what waits for a decision, newest first"
    )
    held.add_argument("--queue", help="of this queue")
    held.add_argument("--limit", type=positive, default=ITEMS_DEFAULT, help="how many at most")
    held.set_defaults(run=asking(_held))

    read = verbs.add_parser("read", parents=[parent], help="everything that a turn sealed")
    read.add_argument("id", metavar="TURN")
    read.add_argument(
        "--seal", type=positive, help="the set under this number; without it the last"
    )
    read.set_defaults(run=asking(_read))

    decide = verbs.add_parser("decide", parents=[parent], help="decide about a held set, once")
    decide.add_argument("id", metavar="TURN")
    decide.add_argument("decision", choices=("approve", "reject", "revise"))
    decide.add_argument(
        "--hash",
        required=True,
        help="the payload_hash of what you have read: nothing else is decided",
    )
    decide.add_argument("--by", required=True, help="your name")
    decide.add_argument("--comment", help="why; the agent reads it when it revises")
    decide.set_defaults(run=asking(_decide, dev_scope="approve"))


async def _held(remote: Remote, arguments: argparse.Namespace) -> int:
    query = {"state": _WAITING, **query_of(arguments, "queue")}
    items, more = await remote.items("/v1/turns", query, items_max=arguments.limit)
    if arguments.json:
        print_json({"items": items, "more": more})
        return 0
    rows = [{**turn, **_asked(turn)} for turn in items]
    print_table([[row[name] for name in _COLUMNS] for row in rows], heads=_COLUMNS)
    print_more(more, len(items))
    return 0


def _asked(turn: Document) -> Document:
    hold = turn["hold"] or {}
    return {"deadline_at": hold.get("deadline_at"), "note": hold.get("note")}


async def _read(remote: Remote, arguments: argparse.Namespace) -> int:
    path = f"/v1/turns/{quoted(arguments.id)}/set"
    document = await remote.get(path, query_of(arguments, "seal"))
    if arguments.json:
        print_json(document)
        return 0
    print_fields(document)
    for kind in ("messages", "follow_ups"):
        for one in document[kind]:
            print()
            print_fields({n: v for n, v in one.items() if n != "payload_base64"})
            if one["payload_base64"] is not None:
                print_text(base64.b64decode(one["payload_base64"]).decode("utf-8", "replace"))
    return 0


async def _decide(remote: Remote, arguments: argparse.Namespace) -> int:
    body = {"decision": arguments.decision, "payload_hash": arguments.hash, "by": arguments.by}
    if arguments.comment is not None:
        body["comment"] = arguments.comment
    answer = await remote.post(f"/v1/turns/{quoted(arguments.id)}/decision", body)
    if arguments.json:
        print_json(answer)
        return 0
    print_fields({name: answer[name] for name in _DECIDED})
    return 0
