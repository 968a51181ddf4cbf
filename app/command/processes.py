"""The processes of the service: a replica, the development server, the demo, and the migration that comes before."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from app.command import read_settings, run_to_the_end
from app.domain.errors import SinksweepError

if TYPE_CHECKING:
    from app.command import Commands
    from app.service import Role


def add(commands: "Commands", common: argparse.ArgumentParser) -> None:
    listening = argparse.ArgumentParser(add_help=False)
    listening.add_argument("--host", help="where to listen")
    listening.add_argument("--port", type=int, help="where to listen; 0 is any that is free")

    dev = commands.add_parser(
        "dev", parents=[common, listening], help="everything in one process, with its own Postgres"
    )
    dev.add_argument("--data-dir", metavar="FOLDER", help="where the data is kept")
    dev.set_defaults(run=_dev)

    serve = commands.add_parser(
        "serve", parents=[common, listening], help="one of any number of replicas"
    )
    serve.add_argument(
        "--roles",
        default="api,deliver,sweep",
        type=_roles,
        help="what this process does, with commas between: api, deliver, sweep; without it all",
    )
    serve.add_argument(
        "--deliver-paused",
        action="store_true",
        help="pause everything first, for all replicas: for a database restored from a backup",
    )
    serve.set_defaults(run=_serve)

    demo = commands.add_parser(
        "demo", help="the story: an agent is killed, and nothing is said twice"
    )
    demo.add_argument("--keep", metavar="FOLDER", help="keep logs and data here")
    demo.set_defaults(run=_demo)

    migrate = commands.add_parser("migrate", parents=[common], help="bring the schema up to date")
    migrate.set_defaults(run=_migrate)


def _serve(arguments: argparse.Namespace) -> int:
    from app.core import open_core
    from app.engine.pause import pause
    from app.service import bind, check_database, run_service
    from app.telemetry.logs import configure_logging

    settings = read_settings(arguments)
    configure_logging()

    async def work() -> None:
        with bind(settings.host, settings.port) as listener:
            async with open_core(settings, application_name="sinksweep") as core:
                await check_database(core)
                if arguments.deliver_paused:
                    await pause(
                        core.pool, "all", by="serve", reason="started with --deliver-paused"
                    )
                await run_service(core, roles=arguments.roles, listener=listener)

    run_to_the_end(work())
    return 0


def _dev(arguments: argparse.Namespace) -> int:
    from app.dev.server import ASSUMED, dev
    from app.telemetry.logs import configure_logging

    settings = read_settings(arguments, assumed=ASSUMED)
    configure_logging(level="WARNING", plain=True)
    run_to_the_end(dev(settings))
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    from app.dev.demo import demo

    return int(demo(keep=arguments.keep))


def _migrate(arguments: argparse.Namespace) -> int:
    from app.core import database_options
    from app.engine.schema import head, upgrade

    options = database_options(read_settings(arguments)).direct
    if options is None:
        message = (
            "migrations need Postgres itself: set database.direct_url, which leads past the pooler"
        )
        raise SinksweepError(message)
    asyncio.run(upgrade(options.url))
    print(f"The schema is at revision {head()}.")
    return 0


def _roles(text: str) -> "frozenset[Role]":
    from app.service import Role

    named = text.split(",")
    wrong = [role for role in named if role not in set(Role)]
    if wrong:
        message = f"unknown: {', '.join(wrong)}; known are {', '.join(sorted(Role))}"
        raise argparse.ArgumentTypeError(message)
    return frozenset(map(Role, named))
