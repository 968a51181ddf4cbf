"""API keys, made and ended in the database itself: the first key cannot be asked for over HTTP."""

import argparse
from typing import TYPE_CHECKING

from app.command import read_settings, run_to_the_end
from app.command.printing import print_table
from app.domain.errors import SinksweepError
from app.domain.scopes import SCOPES

if TYPE_CHECKING:
    from app.command import Commands
    from app.engine.keys import KeyView

DAY_SECONDS = 86_400
DAYS_MAX = 36_500


def add(commands: "Commands", common: argparse.ArgumentParser) -> None:
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


def _keys(arguments: argparse.Namespace) -> int:
    from app.core import database_options
    from app.engine import keys
    from app.engine.database import open_pool
    from app.engine.schema import check_schema

    options = database_options(read_settings(arguments))

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
                    heads = ("id", "state", "scopes", "queues", "name")
                    print_table([_row(view) for view in await keys.list_keys(pool)], heads=heads)
                case "revoke":
                    if not await keys.revoke_key(pool, arguments.id):
                        message = f"there is no key {arguments.id}"
                        raise SinksweepError(message)
                    print(f"{arguments.id} is revoked.")
                case verb:
                    raise SinksweepError(verb)

    run_to_the_end(work())
    return 0


def _row(view: "KeyView") -> list[str]:
    state = "revoked" if view.revoked_at else "active"
    if view.expires_at and not view.revoked_at:
        state = f"until {view.expires_at:%Y-%m-%dT%H:%M:%SZ}"
    queues = ",".join(view.queues) if view.queues else "every queue"
    return [view.id, state, ",".join(view.scopes), queues, view.name]


def _days(text: str) -> float:
    days = float(text)
    if not 0 < days <= DAYS_MAX:
        message = f"more than 0 and at most {DAYS_MAX} are needed"
        raise argparse.ArgumentTypeError(message)
    return days
