"""What every command that asks a running service shares: where to ask, and what to do with many ids."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from app.command import EXIT_FAILED
from app.command.printing import print_json, print_more, print_table
from app.command.remote import Document, Refused

if TYPE_CHECKING:
    from app.command.remote import Remote

SECONDS_MAX: Final = 60.0
ITEMS_DEFAULT: Final = 50
SAID: Final = "{id} is {state}."


def positive(text: str) -> int:
    """Read how many at most."""
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("1 or more is needed")
    return count


def options() -> argparse.ArgumentParser:
    """What every command that asks a service takes."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--url", help="where the service is; without it SINKSWEEP_URL")
    parser.add_argument(
        "--data-dir",
        metavar="FOLDER",
        help="of a running `sinksweep dev`: its address and key, whatever the variables say",
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    return parser


Work = Callable[["Remote", argparse.Namespace], Awaitable[int]]


def asking(work: Work, *, dev_scope: str = "admin") -> Callable[[argparse.Namespace], int]:
    """Make a command of work that asks a service; `dev_scope` names the key of a `sinksweep dev`."""

    def run(arguments: argparse.Namespace) -> int:
        import aiohttp

        from app.command.remote import Remote
        from app.settings.client import load_client

        client = load_client(url=arguments.url, data_dir=arguments.data_dir, dev_scope=dev_scope)

        async def ask() -> int:
            timeout = aiohttp.ClientTimeout(total=SECONDS_MAX)
            async with aiohttp.ClientSession(timeout=timeout) as http:
                return await work(Remote(client, http), arguments)

        return asyncio.run(ask())

    return run


async def for_each(
    remote: "Remote",
    arguments: argparse.Namespace,
    path: str,
    *,
    body: Mapping[str, object] | None = None,
    said: str = SAID,
) -> int:
    """Post to `path` for every id that was given. One that is refused keeps no other."""
    status = 0
    done: list[Document] = []
    for id_ in arguments.ids:
        try:
            answer = await remote.post(path.format(id=quoted(id_)), body)
        except Refused as refused:
            status = EXIT_FAILED
            print(f"sinksweep: {id_}: {refused}", file=sys.stderr)
            continue
        done.append(answer)
        if not arguments.json:
            print(said.format(id=id_, state=answer["state"]))
    if arguments.json:
        print_json({"items": done})
    return status


async def show_list(
    remote: "Remote",
    arguments: argparse.Namespace,
    path: str,
    *,
    filters: Sequence[str] = (),
    columns: Sequence[str],
) -> int:
    """Show what a list holds: what was asked for, up to `--limit`, and whether there is more."""
    query = query_of(arguments, *filters)
    items, more = await remote.items(path, query, items_max=arguments.limit)
    if arguments.json:
        print_json({"items": items, "more": more})
        return 0
    print_table([[item[name] for name in columns] for item in items], heads=columns)
    print_more(more, len(items))
    return 0


def quoted(text: str) -> str:
    """Spell something for a path, whatever is in it."""
    return quote(text, safe="")


def query_of(arguments: argparse.Namespace, *names: str) -> dict[str, str]:
    """The arguments that were given, by their names in a query."""
    return {name: str(value) for name in names if (value := getattr(arguments, name)) is not None}
