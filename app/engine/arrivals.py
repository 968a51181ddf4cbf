"""What arrived as the columns of the statements that write it: whether it joins or not, the same of each is kept."""

import json
from collections.abc import Sequence

from app.domain.model import Arrival


def content(arrival: Arrival) -> dict[str, object]:
    """The columns of one that arrived, for the statement that writes it alone."""
    return {
        "queue": arrival.queue,
        "source": arrival.source,
        "conversation": arrival.conversation,
        "content_type": arrival.content_type,
        "header": json.dumps(dict(arrival.headers)) if arrival.headers else "{}",
        "metadata": arrival.metadata,
        "body": arrival.body,
        "strict": arrival.strict_json,
        "view": arrival.view,
        "reply": arrival.reply,
        "reply_expires": arrival.reply_expires_at,
    }


def contents(arrivals: Sequence[Arrival]) -> dict[str, object]:
    """The same of several, for the statements that write them together."""
    return {
        "queues": [arrival.queue for arrival in arrivals],
        "sources": [arrival.source for arrival in arrivals],
        "conversations": [arrival.conversation for arrival in arrivals],
        "content_types": [arrival.content_type for arrival in arrivals],
        "headers": [
            json.dumps(dict(arrival.headers)) if arrival.headers else "{}" for arrival in arrivals
        ],
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
