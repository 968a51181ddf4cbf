"""Every call of the API: path, scopes, handler and documentation, in one table."""

from collections.abc import Sequence
from typing import Final

from app.api import requests, schemas, seal_schemas, status_schemas
from app.api.calls import BODY_CODES, PUBLIC, Call
from app.api.claims import claim_turns
from app.api.controls import CONTROLS
from app.api.decisions import decide_turn
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
from app.api.parks import park_turn, signal_turn
from app.api.sealed_sets import show_set
from app.api.seals import seal_turn
from app.api.sources import receive_handshake, receive_webhook
from app.api.turns import list_events, release_turn, renew_lease, show_turn

ACCEPT: Final = frozenset({"accept"})
AGENT: Final = frozenset({"agent"})
READ: Final = frozenset({"read"})
ADMIN: Final = frozenset({"admin"})
APPROVE: Final = frozenset({"approve"})
ANYBODY_OF_THE_QUEUE: Final = ACCEPT | AGENT | READ | APPROVE

_BODY: Final = BODY_CODES
_WAIT: Final = {
    "wait": "Answer once the turn's events contain this state, or it ended otherwise.",
    "timeout_seconds": "How long to wait at most, with `wait`; 30 without it.",
}
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
        answers={202: schemas.Accepted, 200: schemas.Accepted},
        codes=(
            *_BODY,
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
        query=_WAIT,
        answers={200: schemas.Inbound},
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
    Call(
        method="POST",
        path="/v1/turns/claim",
        handler=claim_turns,
        scopes=AGENT,
        summary="Lease due turns of a queue, waiting for them if wished.",
        request=requests.ClaimTurns,
        answers={200: schemas.ClaimedTurns},
        codes=_BODY,
    ),
    Call(
        method="GET",
        path="/v1/turns/{id}",
        handler=show_turn,
        scopes=ANYBODY_OF_THE_QUEUE,
        summary="One turn with its messages.",
        query=_WAIT,
        answers={200: status_schemas.Turn},
        codes=("not_found", "invalid_content"),
    ),
    Call(
        method="GET",
        path="/v1/turns/{id}/set",
        handler=show_set,
        scopes=AGENT | READ | APPROVE,
        summary="Everything that a turn sealed, byte for byte: what its payload_hash covers.",
        query={"seal": "The set under this number; the last one without it."},
        answers={200: status_schemas.SealedSet},
        codes=("not_found", "invalid_content"),
    ),
    Call(
        method="GET",
        path="/v1/turns/{id}/events",
        handler=list_events,
        scopes=ANYBODY_OF_THE_QUEUE,
        summary="The story of a turn and its messages, in order.",
        query={"cursor": "Events behind this number.", "limit": "1 to 1000; 100 without it."},
        answers={200: schemas.Events},
        codes=("not_found", "invalid_content"),
    ),
    Call(
        method="POST",
        path="/v1/turns/{id}/renew",
        handler=renew_lease,
        urgent=True,
        scopes=AGENT,
        summary="Restore a lease that still holds.",
        request=requests.RenewLease,
        answers={200: schemas.Renewed},
        codes=(*_BODY, "not_found", "lease_lost"),
    ),
    Call(
        method="POST",
        path="/v1/turns/{id}/release",
        handler=release_turn,
        urgent=True,
        scopes=AGENT,
        summary="Hand a turn back: free, as a failed attempt, or failed for good.",
        request=requests.ReleaseTurn,
        answers={200: schemas.Released},
        codes=(*_BODY, "not_found", "lease_lost"),
    ),
    Call(
        method="POST",
        path="/v1/turns/{id}/park",
        handler=park_turn,
        urgent=True,
        scopes=AGENT,
        summary="End an attempt to wait for a signal or a time under the same handle.",
        request=requests.ParkTurn,
        answers={200: schemas.Parked},
        codes=(*_BODY, "not_found", "lease_lost", "parks_exhausted", "queue_not_configured"),
    ),
    Call(
        method="POST",
        path="/v1/turns/{id}/signals/{name}",
        handler=signal_turn,
        scopes=ACCEPT | AGENT | APPROVE,
        any_name=True,
        summary="Tell a turn something under a name: the first wins, kept where nobody waits for it yet.",
        request=requests.SignalTurn,
        answers={200: schemas.Signalled},
        codes=(
            *_BODY,
            "not_found",
            "already_signalled",
            "payload_changed",
            "turn_ended",
            "too_many_signals",
        ),
    ),
    Call(
        method="POST",
        path="/v1/turns/{id}/seal",
        handler=seal_turn,
        urgent=True,
        scopes=AGENT,
        summary="End an attempt and record its whole outbound set, or change nothing.",
        request=requests.SealTurn,
        answers={200: seal_schemas.Sealed},
        codes=(*_BODY, "not_found", "lease_lost", "already_sealed", "queue_not_configured"),
    ),
    Call(
        method="POST",
        path="/v1/turns/{id}/decision",
        handler=decide_turn,
        scopes=APPROVE,
        summary="Decide about a held set: approve it, change it, reject it, or send it back.",
        request=requests.DecideTurn,
        answers={200: seal_schemas.Decided},
        codes=(
            *_BODY,
            "not_found",
            "payload_changed",
            "already_decided",
            "revisions_exhausted",
            "not_held",
            "integrity",
            "queue_not_configured",
        ),
    ),
    Call(
        method="POST",
        path="/v1/turns/{id}/cancel",
        handler=cancel_turn,
        scopes=ADMIN,
        summary="Cancel a turn, or what a sealed one has not delivered yet.",
        answers={200: schemas.TurnNow},
        codes=(*_BODY, "not_found", "not_cancellable"),
    ),
    Call(
        method="POST",
        path="/v1/turns/{id}/redrive",
        handler=redrive_turn,
        scopes=ADMIN,
        summary="Run a failed turn again, or send again what is dead or unknown of an undelivered one.",
        answers={200: schemas.TurnNow},
        codes=(*_BODY, "not_found", "not_redrivable"),
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
        codes=(*_BODY, "not_found", "not_cancellable"),
    ),
    Call(
        method="POST",
        path="/v1/outbox/{id}/redrive",
        handler=redrive_message,
        scopes=ADMIN,
        summary="Send a dead or unknown message again, under its old key.",
        answers={200: schemas.MessageNow},
        codes=(*_BODY, "not_found", "not_redrivable"),
    ),
    Call(
        method="POST",
        path="/v1/outbox/{id}/resend",
        handler=resend_message,
        scopes=ADMIN,
        summary="Send a delivered message once more, under its old key; neither it nor its turn moves.",
        answers={200: schemas.MessageNow},
        codes=(*_BODY, "not_found", "not_resendable"),
    ),
    Call(
        method="POST",
        path="/v1/outbox/{id}/resolve",
        handler=resolve_message,
        scopes=ADMIN,
        summary="Say what became of a message whose outcome is unknown.",
        request=requests.ResolveMessage,
        answers={200: schemas.MessageNow},
        codes=(*_BODY, "not_found", "not_resolvable"),
    ),
    Call(
        method="POST",
        path="/v1/conversations/erase",
        handler=erase_conversation,
        scopes=ADMIN,
        summary="Forget a conversation: what it said, what it was told, and its name.",
        request=requests.EraseConversation,
        answers={200: schemas.ErasedConversation},
        codes=(*_BODY, "conversation_live", "conversation_sending"),
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
