"""Which key a message of an edited set has: what stays of the held set keeps its own, what is added gets a new one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.domain.model import DraftMessage, EditedMessage


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A message of the held set, as far as another may take its place."""

    id: UUID
    key: str
    destination: str
    recipient: str | None
    conversation: str | None
    hash: bytes


class NotOfTheSet(ValueError):
    """A message names one that is not of the held set, or that another names before it."""

    def __init__(self, position: int) -> None:
        super().__init__("not of the set")
        self.position = position


def kept_keys(held: Sequence[HeldMessage], edited: Sequence[EditedMessage]) -> list[str | None]:
    """The key that each message of the edit keeps; None where it is new.

    It takes the place of the one that it names, else of one that says the same, else of the next one to the same
    address; of each at most one. Raises `NotOfTheSet`.
    """
    keys: list[str | None] = [None] * len(edited)
    left = {one.id: one for one in held}
    for n, message in enumerate(edited):
        if message.replaces is not None:
            if message.replaces not in left:
                raise NotOfTheSet(n)
            keys[n] = left.pop(message.replaces).key
    for alike in (_says_the_same, _goes_to_the_same):
        for n, message in enumerate(edited):
            found = _first(left.values(), alike, message.draft) if keys[n] is None else None
            if found is not None:
                keys[n] = left.pop(found.id).key
    return keys


def _first(
    held: Iterable[HeldMessage],
    alike: Callable[[HeldMessage, DraftMessage], bool],
    draft: DraftMessage,
) -> HeldMessage | None:
    return next((one for one in held if alike(one, draft)), None)


def _says_the_same(held: HeldMessage, draft: DraftMessage) -> bool:
    return held.hash == draft.hash


def _goes_to_the_same(held: HeldMessage, draft: DraftMessage) -> bool:
    address = (draft.destination, draft.recipient, draft.conversation)
    return (held.destination, held.recipient, held.conversation) == address
