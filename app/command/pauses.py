"""Pause and resume from the command line: a queue, a source, a destination, or everything."""

import argparse
from typing import TYPE_CHECKING

from app.command.asking import asking, options, quoted
from app.command.printing import print_json
from app.command.remote import Remote

if TYPE_CHECKING:
    from app.command import Commands

_KINDS = (("queue", "queues"), ("source", "sources"), ("destination", "destinations"))


def add(commands: "Commands", common: argparse.ArgumentParser) -> None:
    del common  # the service has the configuration
    parent = options()
    for verb, words in (
        ("pause", "stop a queue, a source, a destination, or everything; inbound are accepted"),
        ("resume", "let it go on"),
    ):
        command = commands.add_parser(verb, parents=[parent], help=words)
        what = command.add_mutually_exclusive_group(required=True)
        what.add_argument("--all", action="store_true", help="everything")
        for kind, _ in _KINDS:
            what.add_argument(f"--{kind}", metavar="NAME")
        command.add_argument("--reason", help="why, for whoever looks later")
        command.set_defaults(run=asking(_change), verb=verb)


async def _change(remote: Remote, arguments: argparse.Namespace) -> int:
    path, what = f"/v1/{arguments.verb}", "Everything"
    for kind, paths in _KINDS:
        name = getattr(arguments, kind)
        if name is not None:
            path, what = f"/v1/{paths}/{quoted(name)}/{arguments.verb}", f"The {kind} {name}"
    body = {} if arguments.reason is None else {"reason": arguments.reason}
    answer = await remote.post(path, body)
    if arguments.json:
        print_json(answer)
    else:
        rest = "; what was paused by itself stays paused" if arguments.all else ""
        print(f"{what} is paused." if answer["paused"] else f"{what} goes on{rest}.")
    return 0
