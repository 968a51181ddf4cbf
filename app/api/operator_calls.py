"""The calls that find many and change many: lists, the batch of inbound, and operations over what a filter finds."""

from collections.abc import Sequence
from typing import Final

from app.api import operator_schemas as schemas
from app.api.batches import accept_batch
from app.api.bulk import (
    bulk_messages,
    bulk_turns,
    list_all_operations,
    show_operation,
    stop_operation,
)
from app.api.calls import ACCEPT, ADMIN, ANYBODY_OF_THE_QUEUE, APPROVE, BODY_CODES, READ, Call
from app.api.search import list_messages, list_turns

_PAGE: Final = {
    "cursor": "What is behind the page with this `next_cursor`, of the same list with the same filter.",
    "limit": "1 to 200; 50 without it.",
}
_TEXTS: Final = frozenset(
    {"state", "queue", "conversation", "key", "root", "about", "destination", "turn", "cursor"}
)

OPERATOR_CALLS: Final[Sequence[Call]] = (
    Call(
        method="GET",
        path="/v1/turns",
        handler=list_turns,
        scopes=ANYBODY_OF_THE_QUEUE,
        summary="Turns by state, queue, conversation, idempotency key or kinship, newest first.",
        query={
            "state": "One state, or several with commas between them.",
            "queue": "The turns of this queue.",
            "conversation": "The turns of this conversation.",
            "key": "The turns that this idempotency key stands for.",
            "root": "The turns that came of this one by follow-ups, at whatever depth.",
            "about": "The turns that told somebody of this one.",
            **_PAGE,
        },
        texts=_TEXTS,
        answers={200: schemas.Turns},
        codes=("invalid_content",),
    ),
    Call(
        method="GET",
        path="/v1/outbox",
        handler=list_messages,
        scopes=READ | APPROVE,
        summary="Outbox messages by state, queue, destination or turn, newest first.",
        query={
            "state": "One state, or several with commas between them.",
            "queue": "The messages of this queue.",
            "destination": "The messages to this destination.",
            "turn": "The messages of this turn.",
            **_PAGE,
        },
        texts=_TEXTS,
        answers={200: schemas.ListedMessages},
        codes=("invalid_content",),
    ),
    Call(
        method="POST",
        path="/v1/inbound/batch",
        handler=accept_batch,
        scopes=ACCEPT,
        summary="Accept many inbound, each once per key and each answered alone.",
        request=schemas.InboundBatch,
        answers={200: schemas.BatchResults},
        codes=BODY_CODES,
    ),
    Call(
        method="POST",
        path="/v1/turns/bulk",
        handler=bulk_turns,
        scopes=ADMIN,
        summary="Cancel or redrive every turn that matches, as an operation to watch and stop; or count them.",
        request=schemas.BulkTurns,
        answers={202: schemas.Operation, 200: schemas.Counted},
        codes=BODY_CODES,
    ),
    Call(
        method="POST",
        path="/v1/outbox/bulk",
        handler=bulk_messages,
        scopes=ADMIN,
        summary="Cancel, redrive, resolve or resend every message that matches, as an operation; or count them.",
        request=schemas.BulkMessages,
        answers={202: schemas.Operation, 200: schemas.Counted},
        codes=BODY_CODES,
    ),
    Call(
        method="GET",
        path="/v1/operations",
        handler=list_all_operations,
        scopes=READ,
        summary="Operations over many, newest first.",
        query=_PAGE,
        texts=_TEXTS,
        answers={200: schemas.Operations},
        codes=("invalid_content",),
    ),
    Call(
        method="GET",
        path="/v1/operations/{id}",
        handler=show_operation,
        scopes=READ,
        summary="How far an operation is.",
        answers={200: schemas.Operation},
        codes=("not_found", "invalid_content"),
    ),
    Call(
        method="POST",
        path="/v1/operations/{id}/cancel",
        handler=stop_operation,
        scopes=ADMIN,
        summary="Stop an operation; what it has done stays done.",
        answers={200: schemas.Operation},
        codes=(*BODY_CODES, "not_found", "not_cancellable"),
    ),
)
