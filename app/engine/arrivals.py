"""What arrived as the columns of the statements that write it: whether it joins or not, the same of each is kept."""

import json
from collections.abc import Sequence

from app.domain.model import Arrival


def contents(arrivals: Sequence[Arrival]) -> dict[str, object]:
    """The columns of what arrived, for the statements that write it."""
    return {
        "queues": [arrival.queue for arrival in arrivals],
        "sources": [arrival.source for arrival in arrivals],
        "conversations": [arrival.conversation for arrival in arrivals],
        "content_types": [arrival.content_type for arrival in arrivals],
        "headers": [json.dumps(dict(arrival.headers)) for arrival in arrivals],
        "metadatas": [arrival.metadata for arrival in arrivals],
        "bodies": [arrival.body for arrival in arrivals],
        "stricts": [arrival.strict_json for arrival in arrivals],
        "views": [arrival.view for arrival in arrivals],
        "replies": [arrival.reply for arrival in arrivals],
        "replies_expire": [arrival.reply_expires_at for arrival in arrivals],
    }


def keys_of(arrivals: Sequence[Arrival]) -> dict[str, object]:
    """Every key of what arrived, with the position of what it is a key of."""
    return {
        "key_counts": [len(arrival.keys) for arrival in arrivals],
        "key_positions": [n for n, arrival in enumerate(arrivals) for _ in arrival.keys],
        "keys": [key for arrival in arrivals for key in arrival.keys],
    }
