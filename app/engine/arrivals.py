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
    """Every key of what arrived, with the number, from 1, of what it is a key of; in the order in which keys are taken.

    That is the order of their code points, which is the database's order of bytes.
    """
    keys = sorted((one.scope, key, n) for n, one in enumerate(arrivals, 1) for key in one.keys)
    return {
        "key_counts": [len(arrival.keys) for arrival in arrivals],
        "key_numbers": [n for _, _, n in keys],
        "keys": [key for _, key, _ in keys],
    }
