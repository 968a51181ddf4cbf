"""Erase from the command line: a conversation is forgotten, however many calls it takes."""

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Final

from app.command import EXIT_FAILED
from app.command.asking import asking, options
from app.command.printing import print_json
from app.command.remote import Remote

if TYPE_CHECKING:
    from app.command import Commands

# Thousands of turns each: what takes more is called again by hand.
CALLS_MAX: Final = 10_000
REST_SECONDS: Final = 0.1
KINDS: Final = ("turns", "inbound", "attempts", "messages", "events", "loopback")


def add(commands: "Commands", common: argparse.ArgumentParser) -> None:
    del common  # the service has the configuration
    erase = commands.add_parser(
        "erase", parents=[options()], help="forget a conversation: its words and its name"
    )
    erase.add_argument("--queue", required=True, metavar="NAME")
    erase.add_argument("--conversation", required=True, metavar="NAME")
    erase.add_argument("--cancel", action="store_true", help="cancel first what has not ended")
    erase.set_defaults(run=asking(_erase))


async def _erase(remote: Remote, arguments: argparse.Namespace) -> int:
    body: dict[str, object] = {
        "queue": arguments.queue,
        "conversation": arguments.conversation,
        "cancel": arguments.cancel,
    }
    counts = dict.fromkeys(KINDS, 0)
    done = False
    for _ in range(CALLS_MAX):
        answer = await remote.post("/v1/conversations/erase", body)
        counts = {kind: counts[kind] + answer[kind] for kind in KINDS}
        done = answer["done"]
        if done:
            break
        body["cursor"] = answer["next_cursor"]
        if not any(answer[kind] for kind in KINDS):
            # It waits for something.
            await asyncio.sleep(REST_SECONDS)
    if arguments.json:
        print_json({"done": done, **counts})
    else:
        if done and not any(counts.values()):
            print("sinksweep: nothing was found under this name", file=sys.stderr)
        print("Erased: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()) + ".")
    if not done:
        print("sinksweep: there is more; call again", file=sys.stderr)
    return 0 if done else EXIT_FAILED
