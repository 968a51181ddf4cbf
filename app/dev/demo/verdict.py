"""What the demo proves: decided from what the chat really heard and what the service says, nothing else."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict


class Heard(TypedDict):
    """One request that reached the chat; `at` is in seconds of this machine's monotonic clock."""

    at: float
    path: str
    status: int
    key: str | None
    idempotency_key: str | None
    signature: str
    text: str


class Accepted(TypedDict):
    """The answer to an accept."""

    id: str
    turn: str
    duplicate: bool


class Message(TypedDict):
    """A message as its turn's answer shows it."""

    id: str
    state: str
    attempts: int
    idempotency_key: str


class Turn(TypedDict):
    """The answer to a question for a turn."""

    id: str
    inbound: str
    state: str
    messages: list[Message]


@dataclass(frozen=True, slots=True)
class Sealed:
    """A message as its agent sealed it, with the key that the seal gave it."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must be so, and what speaks against it: None when nothing does."""

    claim: str
    fault: str | None


def verdict(
    heard: Sequence[Heard],
    *,
    sealed: Sequence[Sealed],
    turn: Turn,
    accepted: Sequence[Accepted],
) -> tuple[Check, ...]:
    """Judge one turn: `accepted` are the answers to one question told several times over."""
    return (
        Check("nothing was lost", _lost(heard, sealed)),
        Check("nothing was said twice", _repeated(heard)),
        Check("nothing was said that was not sealed", _unsealed(heard, sealed)),
        Check("it was heard in the order of the seal", _disordered(heard, sealed)),
        Check(
            "every message has one key of its own, from seal to chat", _keys(heard, sealed, turn)
        ),
        Check("every signature is valid", _signatures(heard)),
        Check("the turn is replied, every message delivered", _unfinished(turn, sealed)),
        Check("a question told twice is one inbound and one turn", _doubled(accepted, turn)),
    )


def _lost(heard: Sequence[Heard], sealed: Sequence[Sealed]) -> str | None:
    if not sealed:
        return "nothing was sealed"
    missing = [one.text for one in sealed if one.key not in {line["key"] for line in heard}]
    return f"never arrived: {_quoted(missing)}" if missing else None


def _repeated(heard: Sequence[Heard]) -> str | None:
    texts = Counter(line["text"] for line in heard)
    keys = Counter(line["key"] for line in heard)
    twice = [line["text"] for line in heard if texts[line["text"]] > 1 or keys[line["key"]] > 1]
    return f"arrived more than once: {_quoted(twice)}" if twice else None


def _unsealed(heard: Sequence[Heard], sealed: Sequence[Sealed]) -> str | None:
    known = {one.text for one in sealed}
    strange = [line["text"] for line in heard if line["text"] not in known]
    return f"nobody sealed: {_quoted(strange)}" if strange else None


def _disordered(heard: Sequence[Heard], sealed: Sequence[Sealed]) -> str | None:
    place = {one.key: number for number, one in enumerate(sealed)}
    # Only the first time counts: a repetition is another fault.
    first = list(dict.fromkeys(place[line["key"]] for line in heard if line["key"] in place))
    numbers = ", ".join(str(number + 1) for number in first)
    return None if first == sorted(first) else f"arrived as {numbers}"


def _keys(heard: Sequence[Heard], sealed: Sequence[Sealed], turn: Turn) -> str | None:
    given = [one.key for one in sealed]
    if len(set(given)) != len(given):
        return "two messages share a key"
    if [message["idempotency_key"] for message in turn["messages"]] != given:
        return "the turn shows other keys than its seal gave"
    texts = {one.key: one.text for one in sealed}
    for line in heard:
        if line["key"] != line["idempotency_key"] or texts.get(line["key"] or "") != line["text"]:
            return f"{line['text']!r} came with the key {line['key']}"
    return None


def _signatures(heard: Sequence[Heard]) -> str | None:
    bad = [line["text"] for line in heard if line["signature"] != "valid"]
    return f"not validly signed: {_quoted(bad)}" if bad else None


def _unfinished(turn: Turn, sealed: Sequence[Sealed]) -> str | None:
    if turn["state"] != "replied":
        return f"the turn is {turn['state']}"
    states = [message["state"] for message in turn["messages"]]
    if states != ["delivered"] * len(sealed):
        return f"{len(sealed)} messages were sealed, and they are: {', '.join(states) or 'none'}"
    return None


def _doubled(accepted: Sequence[Accepted], turn: Turn) -> str | None:
    if {(answer["id"], answer["turn"]) for answer in accepted} != {(turn["inbound"], turn["id"])}:
        return "the question became more than one inbound, or another turn"
    if [answer["duplicate"] for answer in accepted] != [False] + [True] * (len(accepted) - 1):
        return "its repetition was not recognised"
    return None


def _quoted(texts: Sequence[str]) -> str:
    return ", ".join(f'"{text}"' for text in dict.fromkeys(texts))
