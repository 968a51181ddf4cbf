"""The commands, one file a family: each adds its arguments to the parser, and imports only what it runs.

A family offers `add(commands, common)`. What it adds sets `run` to a function from the parsed arguments to the exit
status: 0 when it is done, EXIT_FAILED, or EXIT_USAGE for how it was called or configured.
"""

import argparse
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, TypeVar

from app.domain.errors import SinksweepError

if TYPE_CHECKING:
    from app.settings import Settings

    # What add_subparsers returns has no public name.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

ResultT = TypeVar("ResultT")

EXIT_FAILED = 1
EXIT_USAGE = 2


def run_to_the_end(work: Coroutine[object, object, ResultT]) -> ResultT:
    """Run to the end, and say what came of it. The first error of a group of tasks stands for the group."""
    import uvloop

    try:
        return uvloop.run(work)
    except BaseExceptionGroup as group:
        # What else broke at the same moment broke because of it.
        expected = group.subgroup(SinksweepError)
        if expected is None:
            raise
        error = _first(expected)
        raise error from error.__cause__


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def read_settings(
    arguments: argparse.Namespace, assumed: Mapping[str, object] | None = None
) -> "Settings":
    from app.core import kind_faults
    from app.settings import load_settings

    names = ("config", "host", "port", "data_dir")
    flags = {name: getattr(arguments, name, None) for name in names}
    return load_settings(overrides=flags, assumed=assumed, also=kind_faults)
