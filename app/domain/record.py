"""Records: values that nobody changes once they are made. The type checker keeps that, and nothing pays for it later.

The standard library's frozen dataclass sets each field by a call of its own: of a message on its way, which is a dozen
records, that is a twelfth of what its way costs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(*, frozen: bool, **options: bool) -> Callable[[type], Any]:
        """A dataclass that compares and hashes by its fields, like a frozen one."""
        return dataclass(unsafe_hash=frozen, **options)


__all__ = ["record"]
