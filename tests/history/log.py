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
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args, get_origin, get_type_hints

SUFFIX = ".jsonl"


def now() -> float:
    """Seconds on the clock that all logs of a run use."""
    return time.monotonic()


def encode(body: bytes) -> str:
    """Bytes as the records hold them: base64."""
    return base64.b64encode(body).decode()


# The provider's side.


@dataclass(frozen=True, slots=True)
class Posted:
    """A provider is about to send an inbound. `post` names this one request; a retry is another one.

    `scope` is what the key is unique in, as the service stores it: `queue/<queue>` for the plain API.
    """

    post: str
    at: float
    replica: str
    scope: str
    key: str
    body_base64: str
    content_type: str = "application/json"
    conversation: str | None = None


@dataclass(frozen=True, slots=True)
class PostAnswered:
    """What the provider saw: `status` None when there was no answer, or half of one. Ids as the API spells them."""

    post: str
    at: float
    status: int | None
    inbound: str | None = None
    turn: str | None = None
    state: str | None = None
    duplicate: bool | None = None
    code: str | None = None


# The agent's and the operator's side.


@dataclass(frozen=True, slots=True)
class Asked:
    """An agent or an operator is about to call. `call` names this one request; a repeat is another one.

    `verb`: `claim`, `renew`, `release`, `fail` (a release that counts), `seal`, `cancel`, `redrive`, `resolve`, or
    `cancel_message`, `redrive_message`. `request` says which request it is, so that the same one again can be told
    from another: for a seal anything that is equal if and only if the message sets are equal, such as a hash.
    """

    call: str
    at: float
    agent: str
    verb: str
    replica: str = ""
    turn: str | None = None
    token: str | None = None
    message: str | None = None
    request: str | None = None
    bodies_base64: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Input:
    """One inbound that a claim gave; the body is None when the answer left it out."""

    id: str
    body_base64: str | None


@dataclass(frozen=True, slots=True)
class Given:
    """One turn that a claim gave."""

    turn: str
    token: str
    attempt: int
    inbound: tuple[Input, ...]
    lease_seconds: float
    conversation: str | None = None


@dataclass(frozen=True, slots=True)
class Promise:
    """One message that a seal's answer names."""

    id: str
    key: str
    state: str


@dataclass(frozen=True, slots=True)
class Told:
    """The answer to an `Asked`: `status` None when there was none. `turns` for a claim, `messages` for a seal."""

    call: str
    at: float
    status: int | None
    state: str | None = None
    code: str | None = None
    reason: str | None = None
    payload_hash: str | None = None
    turns: tuple[Given, ...] = ()
    messages: tuple[Promise, ...] = ()
    newer_inbound: int | None = None


# The receiver's side.


@dataclass(frozen=True, slots=True)
class Received:
    """A request arrived at a destination. `complete` says whether its whole body did."""

    request: str
    at: float
    destination: str
    key: str
    body_base64: str
    complete: bool = True
    webhook_id: str | None = None
    content_type: str | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """The receiver is about to answer a request with this header block; None: it cut the connection before that."""

    request: str
    at: float
    status: int | None


# The database's clock, and the state of the replicas.


@dataclass(frozen=True, slots=True)
class Moment:
    """At `at` the database's clock said `database_at` (seconds since 1970). Taken again after each move of it."""

    at: float
    database_at: float


@dataclass(frozen=True, slots=True)
class Vital:
    """How a replica was: whether it is ready, and how many pooled connections are in use (None: not known)."""

    at: float
    replica: str
    ready: bool
    pool_in_use: int | None = None


@dataclass(frozen=True, slots=True)
class Healed:
    """From here on there are no faults: these replicas serve, and everything must come to its end.

    `api_replicas` must accept, after this, a new inbound each.
    """

    at: float
    replicas: tuple[str, ...] = ()
    api_replicas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Terms:
    """What was configured, for those rules that depend on it. None: the rule is not checked.

    `slack_seconds` is how long something due may stay undone after the last fault: poll, sweep and one try.
    """

    turn_attempts_max: int | None = None
    releases_max: int | None = None
    message_attempts_max: int | None = None
    slack_seconds: float = 5.0


Record = (
    Posted | PostAnswered | Asked | Told | Received | Answered | Moment | Vital | Healed | Terms
)
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
