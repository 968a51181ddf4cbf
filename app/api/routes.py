"""Every call of the API: path, scopes, handler and documentation, in one table."""

from collections.abc import Sequence
from typing import Final

from app.api import inbound_schemas, requests, schemas
from app.api.calls import (
    ACCEPT,
    ADMIN,
    ANYBODY_OF_THE_QUEUE,
    APPROVE,
    BODY_CODES,
    PUBLIC,
    READ,
    Call,
)
from app.api.controls import CONTROLS
from app.api.erasure import erase_conversation
from app.api.inbound import accept_inbound, show_inbound, show_payload
from app.api.interventions import (
    cancel_message,
    cancel_turn,
    redrive_message,
    redrive_turn,
    resend_message,
    resolve_message,
)
from app.api.operations import Readiness, show_liveness, show_metrics
from app.api.operator_calls import OPERATOR_CALLS
from app.api.outbox import list_loopback, show_message
from app.api.sources import receive_handshake, receive_webhook
from app.api.turn_calls import TURN_CALLS, WAIT

_KEY: Final = {
    "Idempotency-Key": "1 to 255 visible ASCII characters: one key, one inbound, in its queue."
}

CALLS: Final[Sequence[Call]] = (
    Call(
        method="POST",
        path="/v1/inbound",
        handler=accept_inbound,
        scopes=ACCEPT,
        summary="Accept one inbound, once per key; 2xx means committed.",
        request=requests.NewInbound,
        headers=_KEY,
        answers={202: inbound_schemas.Accepted, 200: inbound_schemas.Accepted},
        codes=(
            *BODY_CODES,
            "idempotency_key_missing",
            "idempotency_key_reused",
            "rate_limited",
            "queue_full",
        ),
    ),
    *(
        Call(
            method=method,
            path="/v1/sources/{source}",
            handler=handler,
            scopes=PUBLIC,
            summary=summary,
            answers={200: None},
            codes=(
                "body_too_large",
                "body_too_old",
                "body_unreadable",
                "method_not_allowed",
                "not_found",
                "signature_invalid",
                "source_not_ready",
            ),
        )
        for method, handler, summary in (
            ("POST", receive_webhook, "A provider's webhook: its signature is its key."),
            ("GET", receive_handshake, "What a provider asks before it sends anything."),
        )
    ),
    Call(
        method="GET",
        path="/v1/inbound/{id}",
        handler=show_inbound,
        scopes=ANYBODY_OF_THE_QUEUE,
        summary="One inbound and what became of it.",
        query=WAIT,
        answers={200: inbound_schemas.Inbound},
        codes=("not_found", "invalid_content"),
    ),
    Call(
        method="GET",
        path="/v1/inbound/{id}/payload",
        handler=show_payload,
        scopes=ANYBODY_OF_THE_QUEUE,
        summary="The bytes of one inbound.",
        answers={200: None},
        codes=("not_found", "invalid_content"),
    ),
    *TURN_CALLS,
    Call(
        method="POST",
        path="/v1/turns/{id}/cancel",
        handler=cancel_turn,
        scopes=ADMIN,
        summary="Cancel a turn, or what a sealed one has not delivered yet.",
        answers={200: schemas.TurnNow},
        codes=(*BODY_CODES, "not_found", "not_cancellable"),
    ),
    Call(
        method="POST",
        path="/v1/turns/{id}/redrive",
        handler=redrive_turn,
        scopes=ADMIN,
        summary="Run a failed turn again, or send again what is dead or unknown of an undelivered one.",
        answers={200: schemas.TurnNow},
        codes=(*BODY_CODES, "not_found", "not_redrivable"),
    ),
    Call(
        method="GET",
        path="/v1/outbox/{id}",
        handler=show_message,
        scopes=READ | APPROVE,
        summary="One message with every attempt at it.",
        answers={200: schemas.Message},
        codes=("not_found", "invalid_content"),
    ),
    Call(
        method="POST",
        path="/v1/outbox/{id}/cancel",
        handler=cancel_message,
        scopes=ADMIN,
        summary="Send a message no more; one that is being sent gets no next attempt.",
        answers={200: schemas.MessageNow},
        codes=(*BODY_CODES, "not_found", "not_cancellable"),
    ),
    Call(
        method="POST",
        path="/v1/outbox/{id}/redrive",
        handler=redrive_message,
        scopes=ADMIN,
        summary="Send a dead or unknown message again, under its old key.",
        answers={200: schemas.MessageNow},
        codes=(*BODY_CODES, "not_found", "not_redrivable"),
    ),
    Call(
        method="POST",
        path="/v1/outbox/{id}/resend",
        handler=resend_message,
        scopes=ADMIN,
        summary="Send a delivered message once more, under its old key; neither it nor its turn moves.",
        answers={200: schemas.MessageNow},
        codes=(*BODY_CODES, "not_found", "not_resendable"),
    ),
    Call(
        method="POST",
        path="/v1/outbox/{id}/resolve",
        handler=resolve_message,
        scopes=ADMIN,
        summary="Say what became of a message whose outcome is unknown.",
        request=requests.ResolveMessage,
        answers={200: schemas.MessageNow},
        codes=(*BODY_CODES, "not_found", "not_resolvable"),
    ),
    Call(
        method="POST",
        path="/v1/conversations/erase",
        handler=erase_conversation,
        scopes=ADMIN,
        summary="Forget a conversation: what it said, what it was told, and its name.",
        request=requests.EraseConversation,
        answers={200: schemas.ErasedConversation},
        codes=(*BODY_CODES, "conversation_live", "conversation_sending"),
    ),
    Call(
        method="GET",
        path="/v1/loopback",
        handler=list_loopback,
        scopes=READ,
        summary="What the loopback channel received, newest first.",
        query={
            "cursor": "What is behind the page with this `next_cursor`.",
            "limit": "1 to 100; 20 without it.",
        },
        texts=frozenset({"cursor"}),
        answers={200: schemas.ReceivedMessages},
        codes=("invalid_content",),
    ),
    *OPERATOR_CALLS,
    *CONTROLS,
)


def operations(readiness: Readiness) -> Sequence[Call]:
    """The calls that every process answers, whatever else it does."""
    return (
        Call(
            method="GET",
            path="/livez",
            handler=show_liveness,
            scopes=PUBLIC,
            summary="Whether the process is alive.",
            answers={200: None},
        ),
        Call(
            method="GET",
            path="/readyz",
            handler=readiness.show_readiness,
            scopes=PUBLIC,
            summary="Whether work can be done here; 503 with the same document when not.",
            answers={200: schemas.Ready, 503: schemas.Ready},
        ),
        Call(
            method="GET",
            path="/metrics",
            handler=show_metrics,
            scopes=PUBLIC,
            summary="Metrics for Prometheus.",
            answers={200: None},
        ),
    )
