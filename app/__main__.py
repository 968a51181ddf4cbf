"""The command line: picks an entry point, and says in one line what is wrong with how it was called."""

import argparse
import asyncio
import sys
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING

from app import VERSION
from app.domain.errors import NotReady, SinksweepError
from app.domain.scopes import SCOPES

if TYPE_CHECKING:
    from app.engine.keys import KeyView
    from app.service import Role
    from app.settings import Settings

EXIT_USAGE = 2
EXIT_FAILED = 1
DAY_SECONDS = 86_400
DAYS_MAX = 36_500


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    arguments = _parser().parse_args(argv)
    from app.settings import SettingsError

    try:
        status: int = arguments.run(arguments)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except SinksweepError as error:
        print(f"sinksweep: {error}{_why(error)}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 130
    return status


def _run(work: Coroutine[object, object, None]) -> int:
    """Run to the end. The first error of a group of tasks stands for the group."""
    import uvloop

    try:
        uvloop.run(work)
    except BaseExceptionGroup as group:
        # What else broke at the same moment broke because of it.
        expected = group.subgroup(SinksweepError)
        if expected is None:
            raise
        error = _first(expected)
        raise error from error.__cause__
    return 0


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _why(error: SinksweepError) -> str:
    """What the system or the database server said, where the error itself does not: neither quotes a password."""
    cause = error.__cause__
    said = isinstance(error, NotReady) and (
        isinstance(cause, OSError) or hasattr(cause, "sqlstate")
    )
    return f" ({cause or type(cause).__name__})" if said else ""


def _serve(arguments: argparse.Namespace) -> int:
    from app.core import open_core
    from app.service import bind, check_database, run_service
    from app.telemetry import configure_logging

    settings = _settings(arguments)
    configure_logging()

    async def work() -> None:
        with bind(settings.host, settings.port) as listener:
            async with open_core(settings, application_name="sinksweep") as core:
                await check_database(core)
                await run_service(core, roles=arguments.roles, listener=listener)

    return _run(work())


def _dev(arguments: argparse.Namespace) -> int:
    from app.dev.server import ASSUMED, dev
    from app.telemetry import configure_logging

    settings = _settings(arguments, assumed=ASSUMED)
    configure_logging(level="WARNING", plain=True)
    return _run(dev(settings))


def _demo(arguments: argparse.Namespace) -> int:
    from app.dev.demo import demo

    return int(demo(keep=arguments.keep))


def _migrate(arguments: argparse.Namespace) -> int:
    from app.core import database_options
    from app.engine.schema import head, upgrade

    options = database_options(_settings(arguments))
    asyncio.run(upgrade(options.url))
    print(f"The schema is at revision {head()}.")
    return 0


def _keys(arguments: argparse.Namespace) -> int:
    from app.core import database_options
    from app.engine import keys
    from app.engine.database import open_pool
    from app.engine.schema import check_schema

    options = database_options(_settings(arguments))

    async def work() -> None:
        async with open_pool(options, application_name="sinksweep keys") as pool:
            await check_schema(pool)
            match str(arguments.verb):
                case "create":
                    days = arguments.days
                    key = await keys.create_key(
                        pool,
                        name=arguments.name,
                        scopes=arguments.scopes,
                        queues=arguments.queues,
                        life_seconds=None if days is None else days * DAY_SECONDS,
                    )
                    print(key)
                case "list":
                    for view in await keys.list_keys(pool):
                        print(_key_line(view))
                case "revoke":
                    if not await keys.revoke_key(pool, arguments.id):
                        message = f"there is no key {arguments.id}"
                        raise SinksweepError(message)
                    print(f"{arguments.id} is revoked.")
                case verb:
                    raise SinksweepError(verb)

    return _run(work())


def _key_line(view: "KeyView") -> str:
    state = "revoked" if view.revoked_at else "active"
    if view.expires_at and not view.revoked_at:
        state = f"until {view.expires_at:%Y-%m-%dT%H:%M:%SZ}"
    queues = ",".join(view.queues) if view.queues else "every queue"
    return f"{view.id}  {state}  {','.join(view.scopes)}  {queues}  {view.name}"


def _settings(
    arguments: argparse.Namespace, assumed: Mapping[str, object] | None = None
) -> "Settings":
    from app.core import channel_faults
    from app.settings import load_settings

    names = ("config", "host", "port", "data_dir")
    flags = {name: getattr(arguments, name, None) for name in names}
    return load_settings(overrides=flags, assumed=assumed, also=channel_faults)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sinksweep",
        description="A durable inbox and outbox that makes any agent retryable.",
    )
    parser.add_argument("--version", action="version", version=f"sinksweep {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--config", metavar="FILE", help="the configuration file")
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
        "--roles", default="api,deliver,sweep", type=_roles, help="what this process does"
    )
    serve.set_defaults(run=_serve)

    demo = commands.add_parser(
        "demo", help="the story: an agent is killed, and nothing is said twice"
    )
    demo.add_argument("--keep", metavar="FOLDER", help="keep logs and data here")
    demo.set_defaults(run=_demo)

    migrate = commands.add_parser("migrate", parents=[common], help="bring the schema up to date")
    migrate.set_defaults(run=_migrate)

    keys = commands.add_parser("keys", help="make, list and revoke API keys")
    verbs = keys.add_subparsers(required=True, dest="verb", metavar="VERB")
    create = verbs.add_parser("create", parents=[common], help="make a key and print it, once")
    create.add_argument("--name", required=True, help="what it is for")
    create.add_argument(
        "--scope",
        action="append",
        required=True,
        dest="scopes",
        choices=SCOPES,
        help="what it may do; repeatable",
    )
    create.add_argument("--queue", action="append", dest="queues", help="repeatable; none: all")
    create.add_argument("--days", type=_days, help="how long it lives; none: until revoked")
    verbs.add_parser("list", parents=[common], help="every key, without its secret")
    revoke = verbs.add_parser("revoke", parents=[common], help="end a key at once")
    revoke.add_argument("id", help="the key's id, as the list shows it")
    keys.set_defaults(run=_keys)
    return parser


def _days(text: str) -> float:
    days = float(text)
    if not 0 < days <= DAYS_MAX:
        message = f"more than 0 and at most {DAYS_MAX} are needed"
        raise argparse.ArgumentTypeError(message)
    return days


def _roles(text: str) -> "frozenset[Role]":
    from app.service import Role

    named = text.split(",")
    wrong = [role for role in named if role not in set(Role)]
    if wrong:
        message = f"unknown: {', '.join(wrong)}; known are {', '.join(sorted(Role))}"
        raise argparse.ArgumentTypeError(message)
    return frozenset(map(Role, named))


if __name__ == "__main__":
    sys.exit(main())
