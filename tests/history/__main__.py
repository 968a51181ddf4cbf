"""Checks a folder of logs: `python -m tests.history FOLDER [DATABASE_URL]`.

With the URL of the database the rows are read and kept in the folder first. Ends 1 if a rule is broken.
"""

import asyncio
import sys
from collections import Counter
from pathlib import Path

from tests.history.check import RULES, check
from tests.history.history import History
from tests.history.log import read_folder
from tests.history.rows import read_database, read_rows, write_rows

SHOWN_MAX = 50


def main(folder: Path, url: str | None = None) -> int:
    """Print what is broken; the exit code."""
    if url is not None:
        write_rows(asyncio.run(read_database(url)), folder)
    history = History(read_folder(folder), read_rows(folder))
    violations = check(history)
    for violation in violations[:SHOWN_MAX]:
        print(violation)
    counts = Counter(violation.rule for violation in violations)
    print(
        f"{len(history.records)} records, {len(history.rows.turns)} turns,"
        f" {len(history.rows.messages)} messages, {len(RULES)} rules:"
        f" {', '.join(f'{rule} broken {n} times' for rule, n in counts.items()) or 'all hold'}"
    )
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:3]))
