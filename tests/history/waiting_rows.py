"""What the database holds of what waits: holds, waits, signals and follow-ups, in the words of the API."""

from dataclasses import dataclass
from typing import Any

# Times are seconds since 1970 on the database's clock, hashes and ids as the API spells them.


@dataclass(frozen=True, slots=True)
class KeptHold:
    """A sealed set that waited for a decision, and the decision. `new_hash` is that of a set that replaced it."""

    turn: str
    seal: int
    attempt: int
    payload_hash: str
    strict: bool
    demanded_by: str
    on_deadline: str
    held_at: float
    deadline_at: float
    reminders: int = 0
    decision: str | None = None
    decided_at: float | None = None
    decided_by: str | None = None
    new_hash: str | None = None


@dataclass(frozen=True, slots=True)
class KeptWait:
    """A park. With `payload_hash` it asked a person. `signal` is the number of the one that ended it."""

    turn: str
    attempt: int
    name: str
    payload_hash: str | None
    asked_at: float
    deadline_at: float
    ended: str | None = None
    ended_at: float | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class KeptSignal:
    """What a turn was told under a name. `is_decision`: by somebody who may decide.

    One that did not answer what a person was asked was dropped, and the next of its name has another number.
    """

    turn: str
    name: str
    body_base64: str | None
    payload_hash: str | None
    is_decision: bool
    sent_at: float
    number: int = 1
    dropped_at: float | None = None


@dataclass(frozen=True, slots=True)
class KeptFollowUp:
    """What a seal committed for later. Once `accepted` the turn `child` has its body, as `inbound`.

    A duplicate stands for what its key stood for before.
    """

    turn: str
    seal: int
    position: int
    state: str
    child: str
    inbound: str
    queue: str
    key: str
    hash: str
    is_duplicate: bool = False


_EPOCH = "extract(epoch from {0})::double precision as {0}"
_HASH = "'sha256:' || encode({0}, 'hex') as {0}"


def _columns(pattern: str, *names: str) -> str:
    return ", ".join(pattern.format(name) for name in names)


QUERIES: dict[str, tuple[type[Any], str]] = {
    "holds": (
        KeptHold,
        f"""select turn, seal, attempt, strict, demanded_by, on_deadline, reminders, decision, decided_by,
            {_columns(_HASH, "payload_hash", "new_hash")},
            {_columns(_EPOCH, "held_at", "deadline_at", "decided_at")}
        from sink.hold order by turn, seal""",
    ),
    "waits": (
        KeptWait,
        f"""select turn, attempt, name, payload_hash, ended, signal,
            {_columns(_EPOCH, "asked_at", "deadline_at", "ended_at")}
        from sink.wait order by turn, attempt""",
    ),
    "signals": (
        KeptSignal,
        f"""select turn, name, number, body as body_base64, payload_hash, is_decision,
            {_columns(_EPOCH, "sent_at", "dropped_at")}
        from sink.signal order by turn, name, number""",
    ),
    "follow_ups": (
        KeptFollowUp,
        f"""select turn, seal, position, state, child, inbound, queue, key, is_duplicate,
            {_columns(_HASH, "hash")}
        from sink.follow_up order by turn, seal, position""",
    ),
}
