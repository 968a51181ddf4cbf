"""What a key may be allowed to do: the whole list."""

from typing import Final

SCOPES: Final = ("accept", "agent", "approve", "read", "admin")
# Whoever proposes never decides: no key has the right to approve and one of these.
PROPOSING: Final = frozenset({"agent", "admin"})
