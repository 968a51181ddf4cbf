"""Loads the named statements of an .sql file, and refuses a call that does not name exactly their parameters."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncpg import Connection, Record
    from asyncpg.pool import PoolConnectionProxy

    Link = Connection[Record] | PoolConnectionProxy[Record]

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
# A placeholder, but neither a cast (::type) nor anything inside a comment or a literal.
_TOKEN = re.compile(r"--[^\n]*|'(?:[^']|'')*'|(?<![:\w]):([a-z_]+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its text with $n placeholders, and the names that stand behind them."""

    name: str
    text: str
    parameters: tuple[str, ...]

    async def rows(self, connection: "Link", **values: object) -> "list[Record]":
        """Run it and return every row."""
        return await connection.fetch(self.text, *self._arguments(values))

    async def run(self, connection: "Link", **values: object) -> None:
        """Run it for its effect."""
        await connection.execute(self.text, *self._arguments(values))

    def _arguments(self, values: dict[str, object]) -> list[object]:
        if values.keys() != set(self.parameters):
            wrong = sorted(values.keys() ^ set(self.parameters))
            message = f"{self.name}: parameters missing or unknown: {', '.join(wrong)}"
            raise TypeError(message)
        return [values[name] for name in self.parameters]


def load(module_file: str) -> dict[str, Statement]:
    """The statements of the .sql file beside the module, by name."""
    return parse(Path(module_file).with_suffix(".sql").read_text(encoding="utf-8"))


def parse(script: str) -> dict[str, Statement]:
    """Split a script at its `-- name:` lines and number the placeholders of each part."""
    parts = _NAME.split(script)
    return {
        name: _numbered(name, text.strip().rstrip(";"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def _numbered(name: str, text: str) -> Statement:
    parameters: list[str] = []

    def number(match: re.Match[str]) -> str:
        parameter = match[1]
        if parameter is None:
            return "" if match[0].startswith("--") else match[0]
        if parameter not in parameters:
            parameters.append(parameter)
        return f"${parameters.index(parameter) + 1}"

    return Statement(name, _TOKEN.sub(number, text), tuple(parameters))
