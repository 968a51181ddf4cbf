"""The command line: picks a command, and says in one line what is wrong with how it was called."""

import argparse
import sys
from collections.abc import Sequence

from app import VERSION
from app.command import (
    EXIT_FAILED,
    EXIT_USAGE,
    destinations,
    diagnosis,
    erase,
    keys,
    operations,
    outbox,
    overviews,
    pauses,
    processes,
    sources,
    turns,
)
from app.domain.errors import NotReady, SinksweepError

FAMILIES = (
    processes,
    keys,
    turns,
    outbox,
    operations,
    overviews,
    sources,
    destinations,
    pauses,
    erase,
    diagnosis,
)


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


def _why(error: SinksweepError) -> str:
    """What the system or the database server said, where the error itself does not: neither quotes a password."""
    cause = error.__cause__
    said = isinstance(error, NotReady) and (
        isinstance(cause, OSError) or hasattr(cause, "sqlstate")
    )
    return f" ({cause or type(cause).__name__})" if said else ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sinksweep",
        description="A durable inbox and outbox that makes any agent retryable.",
    )
    parser.add_argument("--version", action="version", version=f"sinksweep {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--config", metavar="FILE", help="the configuration file")
    for family in FAMILIES:
        family.add(commands, common)
    return parser


if __name__ == "__main__":
    sys.exit(main())
