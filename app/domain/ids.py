"""Ids that sort by the time they were made, with exactly one spelling each.

Inside, an id is a UUIDv7. Outside it is a prefix that names its kind and 26 characters of
Crockford's base 32 in lower case, whose order as text is the order of the UUIDs.
"""

import re
import struct
from collections.abc import Callable
from typing import Final
from uuid import UUID

INBOUND_PREFIX: Final = "in_"
TURN_PREFIX: Final = "turn_"
MESSAGE_PREFIX: Final = "msg_"
OPERATION_PREFIX: Final = "op_"

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS: Final = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_LOW: Final = (1 << 60) - 1
# 26 characters hold 130 bits; the first may only use the lower three of its five.
_BODY: Final = re.compile(f"[0-7][{_ALPHABET}]{{25}}")
_TO_BASE_32: Final = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")

_TAIL_BITS: Final = 74
_STEPS_AT_ONCE: Final = 256
_MILLISECONDS_MAX: Final = (1 << 48) - 1


def new_id(*, milliseconds: int, tail: int) -> UUID:
    """Lay out a UUIDv7: Unix `milliseconds` (48 bits) in front, then the 74 bits of `tail`."""
    if not (0 <= milliseconds <= _MILLISECONDS_MAX and 0 <= tail < 1 << _TAIL_BITS):
        raise ValueError("milliseconds hold 48 bits, the tail 74")
    return UUID(
        int=milliseconds << 80 | 0x7 << 76 | tail >> 62 << 64 | 0b10 << 62 | tail & ((1 << 62) - 1)
    )


class IdFactory:
    """Makes ids that rise strictly within one process, also when its clock stands or goes back.

    `milliseconds` gives Unix milliseconds, `random_bytes(n)` gives n random bytes. For one thread.
    """

    __slots__ = ("_last_milliseconds", "_last_tail", "_milliseconds", "_random_bytes", "_steps")

    def __init__(
        self, *, milliseconds: Callable[[], int], random_bytes: Callable[[int], bytes]
    ) -> None:
        self._milliseconds = milliseconds
        self._random_bytes = random_bytes
        self._last_milliseconds = -1
        self._last_tail = 0
        # Drawn many at once: asking the system costs more than everything else of an id.
        self._steps: list[int] = []

    def new(self) -> UUID:
        """Make the next id."""
        now = self._milliseconds()
        if now > self._last_milliseconds:
            self._last_milliseconds = now
            self._last_tail = self._fresh_tail()
        else:
            # A random step instead of one: an id does not tell its neighbours, and two processes
            # that share a millisecond do not meet.
            self._last_tail += 1 + self._step()
            if self._last_tail >> _TAIL_BITS:
                self._last_milliseconds += 1
                self._last_tail = self._fresh_tail()
        return new_id(milliseconds=self._last_milliseconds, tail=self._last_tail)

    def _step(self) -> int:
        if not self._steps:
            self._steps += struct.unpack(
                f">{_STEPS_AT_ONCE}I", self._random_bytes(4 * _STEPS_AT_ONCE)
            )
        return self._steps.pop()

    def _fresh_tail(self) -> int:
        # The highest bit starts clear: room for 2 ** 41 steps within one millisecond.
        return int.from_bytes(self._random_bytes(10)) >> (80 - _TAIL_BITS + 1)


def format_id(prefix: str, value: UUID) -> str:
    """Spell an id: `format_id("turn_", value)` is `turn_` and 26 characters."""
    bits, pairs = value.int, _PAIRS
    high, low = bits >> 60, bits & _LOW
    return (
        f"{prefix}{pairs[high >> 60]}{pairs[high >> 50 & 1023]}{pairs[high >> 40 & 1023]}"
        f"{pairs[high >> 30 & 1023]}{pairs[high >> 20 & 1023]}{pairs[high >> 10 & 1023]}"
        f"{pairs[high & 1023]}{pairs[low >> 50]}{pairs[low >> 40 & 1023]}{pairs[low >> 30 & 1023]}"
        f"{pairs[low >> 20 & 1023]}{pairs[low >> 10 & 1023]}{pairs[low & 1023]}"
    )


def parse_id(prefix: str, text: str) -> UUID | None:
    """Read an id in its one spelling; None for every other text."""
    if not text.startswith(prefix):
        return None
    body = text[len(prefix) :]
    if _BODY.fullmatch(body) is None:
        return None
    return UUID(int=int(body.translate(_TO_BASE_32), 32))
