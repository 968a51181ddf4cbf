"""What a key may be allowed to do: the whole list."""

from typing import Final

SCOPES: Final = ("accept", "agent", "approve", "read", "admin")
