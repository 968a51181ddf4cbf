"""What a command prints: tables and lines for people, JSON for programs."""

import json
import sys
from collections.abc import Mapping, Sequence


def print_json(document: object) -> None:
    """Print for a program."""
    print(json.dumps(document, indent=2))


def print_table(rows: Sequence[Sequence[object]], *, heads: Sequence[str]) -> None:
    """Print for a person: columns under their names, what is not there as a dash."""
    cells = [list(heads), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(heads))]
    for row in cells:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    # What a stranger has put into a name must not steer the terminal.
    return "".join(c if c.isprintable() else "?" for c in str(value))


def print_fields(document: Mapping[str, object]) -> None:
    """Print one thing for a person, a line for each member that is no list."""
    width = max(map(len, document), default=0)
    for name, value in document.items():
        if isinstance(value, dict):
            print(f"{name.ljust(width)}  {_cell(json.dumps(value))}")
        elif not isinstance(value, list):
            print(f"{name.ljust(width)}  {_cell(value)}")


def print_text(text: str) -> None:
    """Print what somebody wrote, line by line: nothing in it steers the terminal."""
    for line in text.splitlines():
        print(f"  | {_cell(line) if line else ''}".rstrip())


def print_more(more: bool, count: int) -> None:  # noqa: FBT001
    """Say that there are more than were shown."""
    if more:
        print(f"sinksweep: there are more than these {count}; see --limit", file=sys.stderr)
