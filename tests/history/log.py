"""What each side of a run wrote down: one JSON object a line, whole or not at all, in files that anybody may write.

Times are `now()`: one monotonic clock, in seconds, which all processes of a machine share. A side writes down that it
is about to ask *before* its first byte leaves, and what it was told *after* it has read it; a receiver writes down
its answer before the first byte of it leaves. So an effect is never earlier than the record of its cause.

A file's name ends in `.jsonl`; a run is a folder of them, any number for each side. A writer that shares no code with
this project writes `{"kind": "asked", ...}` with the fields below; those that have a default may be left out.
"""

import base64
import dataclasses
import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args, get_origin, get_type_hints

from tests.history.records import (
    Answered,
    Asked,
    Given,
    Healed,
    Heard,
    Input,
    Moment,
    PostAnswered,
    Posted,
    Promise,
    Received,
    Record,
    Terms,
    Told,
    Vital,
)

__all__ = [
    "SUFFIX",
    "Answered",
    "Asked",
    "Given",
    "Healed",
    "Heard",
    "Input",
    "Log",
    "Moment",
    "PostAnswered",
    "Posted",
    "Promise",
    "Received",
    "Record",
    "Terms",
    "Told",
    "Vital",
    "encode",
    "from_lines",
    "now",
    "read_folder",
    "to_line",
]

SUFFIX = ".jsonl"


def now() -> float:
    """Seconds on the clock that all logs of a run use."""
    return time.monotonic()


def encode(body: bytes) -> str:
    """Bytes as the records hold them: base64."""
    return base64.b64encode(body).decode()


KINDS: dict[str, type[Record]] = {
    "posted": Posted,
    "post_answered": PostAnswered,
    "asked": Asked,
    "told": Told,
    "received": Received,
    "answered": Answered,
    "moment": Moment,
    "vital": Vital,
    "healed": Healed,
    "terms": Terms,
}
_NAMES = {kind: name for name, kind in KINDS.items()}


class Log:
    """Appends records to a file, each with one write: what a killed process wrote is whole lines, but for the last."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)

    def __call__(self, record: Record) -> None:
        os.write(self._file, to_line(record).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()


def to_line(record: Record) -> str:
    """A record as its line."""
    return json.dumps({"kind": _NAMES[type(record)], **dataclasses.asdict(record)})


def from_lines(lines: Iterable[str]) -> Iterator[Record]:
    """The records of a file. A last line that a killed writer left unfinished is no record."""
    kept = [line for line in lines if line.strip()]
    for number, line in enumerate(kept):
        try:
            fields = json.loads(line)
        except ValueError:
            if number == len(kept) - 1:
                return
            raise
        record: Record = _made(KINDS[fields.pop("kind")], fields)
        yield record


def read_folder(folder: Path) -> list[Record]:
    """All records of a run, in the order of their times."""
    records = [
        record
        for path in sorted(folder.glob(f"*{SUFFIX}"))
        for record in from_lines(path.read_text(encoding="utf-8").splitlines())
    ]
    return sorted(records, key=lambda record: getattr(record, "at", 0.0))


def _made(kind: type[Any], fields: dict[str, Any]) -> Any:
    hints = get_type_hints(kind)
    return kind(**{name: _value(hints[name], value) for name, value in fields.items()})


def _value(hint: Any, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    wanted = hint if get_origin(hint) is tuple else get_args(hint)[0]
    (inner, *_) = get_args(wanted)
    return tuple(_made(inner, v) if isinstance(v, dict) else v for v in value)
