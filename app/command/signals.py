"""Signals from the command line: a turn is told what it waits for."""

import argparse
import base64
import json
from typing import TYPE_CHECKING

from app.command.asking import SAID, asking, quoted
from app.command.printing import print_json
from app.command.remote import Remote

if TYPE_CHECKING:
    from app.command import Commands


def add(verbs: "Commands", parent: argparse.ArgumentParser) -> None:
    """The verb about what is waited for, beside those about turns."""
    tell = verbs.add_parser(
        "signal", parents=[parent], help="tell a turn something: the first under a name wins"
    )
    tell.add_argument("id", metavar="TURN")
    tell.add_argument("name", metavar="NAME", help="what it waits for, whatever is in it")
    tell.add_argument("--payload", metavar="JSON", type=_spelled, help="what it is told")
    tell.add_argument("--hash", help="where a person was asked: what it was asked about")
    tell.add_argument("--by", help="who says it")
    tell.set_defaults(run=asking(_signal, dev_scope="approve"))


def _spelled(text: str) -> bytes:
    """JSON is sent exactly as it was given."""
    try:
        json.loads(text)
    except ValueError as error:
        message = f"not JSON: {error}"
        raise argparse.ArgumentTypeError(message) from None
    return text.encode()


async def _signal(remote: Remote, arguments: argparse.Namespace) -> int:
    body: dict[str, object] = {}
    if arguments.payload is not None:
        body["payload_base64"] = base64.b64encode(arguments.payload).decode()
        body["content_type"] = "application/json"
    if arguments.hash is not None:
        body["payload_hash"] = arguments.hash
    if arguments.by is not None:
        body["by"] = arguments.by
    path = f"/v1/turns/{quoted(arguments.id)}/signals/{quoted(arguments.name)}"
    answer = await remote.post(path, body)
    if arguments.json:
        print_json(answer)
    else:
        print(SAID.format(id=answer["turn"], state=answer["state"]))
    return 0
