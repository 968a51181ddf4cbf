"""Destinations, from the command line: how they are, and whether one could be sent to."""

import argparse
import sys
from typing import TYPE_CHECKING, Final

from app.command import EXIT_FAILED, EXIT_USAGE, read_settings, run_to_the_end
from app.command.asking import asking, options
from app.command.overviews import Row, listing, seconds
from app.command.printing import print_json
from app.command.remote import Document

if TYPE_CHECKING:
    from app.channels import Probed
    from app.command import Commands
    from app.core import Route
    from app.settings import Settings

_MESSAGES: Final = ("pending", "sending", "dead", "unknown")


def add(commands: "Commands", common: argparse.ArgumentParser) -> None:
    family = commands.add_parser(
        "destinations", help="destinations, their load, and what stops them"
    )
    verbs = family.add_subparsers(required=True, metavar="VERB")
    found = verbs.add_parser("list", parents=[options()], help="by name; counts end at 1000")
    heads = ("breaker", *_MESSAGES, "oldest pending")
    found.set_defaults(run=asking(listing("/v1/destinations", heads, _row)))
    tested = verbs.add_parser(
        "test", parents=[common], help="ask its provider, and say what is wrong; sends nothing"
    )
    tested.add_argument("name", metavar="NAME")
    tested.add_argument("--json", action="store_true", help="for programs")
    tested.set_defaults(run=_test)


def _row(one: Document) -> Row:
    messages = one["messages"] or {}
    counts = (messages.get(state) for state in _MESSAGES)
    return one["breaker"]["state"], *counts, seconds(one["oldest_pending_seconds"])


def _test(arguments: argparse.Namespace) -> int:
    """With the configuration and the secrets of this machine: no service is asked."""
    from app.core import build_routes

    settings = read_settings(arguments)
    routes = build_routes(settings)
    route = routes.get(arguments.name)
    if route is None:
        known = ", ".join(sorted(routes)) or "none"
        print(f"sinksweep: there is no such destination; known here: {known}", file=sys.stderr)
        return EXIT_USAGE
    probed = run_to_the_end(_probe(settings, route))
    if arguments.json:
        told = {"name": route.name, "kind": route.settings.kind}
        print_json({**told, "good": probed.good, "words": probed.words})
    else:
        print(f"{route.name} ({route.settings.kind}): {probed.words}.")
    return 0 if probed.good else EXIT_FAILED


async def _probe(settings: "Settings", route: "Route") -> "Probed":
    from app import VERSION
    from app.channels import Outgoing, Wire
    from app.wire.addresses import AddressPolicy
    from app.wire.client import GuardedClient

    async def keep_nothing(_message: Outgoing) -> int:
        return 0

    policy = AddressPolicy(settings.network.allow)
    async with GuardedClient(policy, user_agent=f"Sinksweep/{VERSION}") as http:
        return await route.probe(wire=Wire(http=http, store=keep_nothing))
