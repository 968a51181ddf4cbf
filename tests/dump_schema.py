"""Writes migrations/schema.sql: what the revisions add up to, in words that no minor version of Postgres changes."""

import asyncio
import re
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from app.dev.binaries import find_binaries
from tests.database import TEMPLATE, open_server

SCHEMA = Path(__file__).resolve().parents[1] / "migrations" / "schema.sql"

HEADER = """\
-- The schema as it is: the sum of all revisions. Made by `make schema`, compared by a test; never edited by hand.
"""

# What depends on the server or on the dump itself, and not on the schema.
_NOISE = re.compile(
    r"^(?:--.*|SET .*|SELECT pg_catalog\.set_config.*|\\(?:un)?restrict .*)\n", re.MULTILINE
)


def dump(url: str) -> str:
    """The schema of a database, normalised."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    script = subprocess.run(
        [
            find_binaries().folder / "pg_dump",
            "--schema-only",
            "--no-owner",
            "--schema=sink",
            f"--host={query['host'][0]}",
            f"--port={query['port'][0]}",
            f"--username={parts.username}",
            parts.path.removeprefix("/"),
        ],
        capture_output=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        text=True,
        timeout=30,
    ).stdout
    return HEADER + "\n" + re.sub(r"\n{3,}", "\n\n", _NOISE.sub("", script)).strip() + "\n"


async def main() -> None:
    """Migrate an empty database and write down what came of it."""
    async with open_server() as server:
        SCHEMA.write_text(dump(server.url_of(TEMPLATE)), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
