"""The calls that move one turn along: its claim, its lease, what it waits for, its seal, and the decision about it."""

from collections.abc import Sequence
from typing import Final

from app.api import claim_schemas, requests, schemas, seal_schemas, status_schemas
from app.api.calls import ACCEPT, AGENT, ANYBODY_OF_THE_QUEUE, APPROVE, BODY_CODES, READ, Call
from app.api.claims import claim_turns
from app.api.decisions import decide_turn
from app.api.parks import park_turn, signal_turn
from app.api.sealed_sets import show_set
from app.api.seals import seal_turn
from app.api.turns import list_events, release_turn, renew_lease, show_turn

WAIT: Final = {
    "wait": "Answer once the turn's events contain this state, or it ended otherwise.",
    "timeout_seconds": "How long to wait at most, with `wait`; 30 without it.",
}

TURN_CALLS: Final[Sequence[Call]] = (
    Call(
        method="POST",
        path="/v1/turns/claim",
        handler=claim_turns,
        scopes=AGENT,
        summary="Lease due turns of a queue, waiting for them if wished.",
        request=requests.ClaimTurns,
        answers={200: claim_schemas.ClaimedTurns},
        codes=BODY_CODES,
    ),
    Call(
        method="GET",
        path="/v1/turns/{id}",
        handler=show_turn,
        scopes=ANYBODY_OF_THE_QUEUE,
        summary="One turn with its messages.",
        query=WAIT,
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
        answers={200: claim_schemas.Renewed},
        codes=(*BODY_CODES, "not_found", "lease_lost"),
    ),
    Call(
        method="POST",
        path="/v1/turns/{id}/release",
        handler=release_turn,
        urgent=True,
        scopes=AGENT,
        summary="Hand a turn back: free, as a failed attempt, or failed for good.",
        request=requests.ReleaseTurn,
        answers={200: claim_schemas.Released},
        codes=(*BODY_CODES, "not_found", "lease_lost"),
    ),
    Call(
        method="POST",
        path="/v1/turns/{id}/park",
        handler=park_turn,
        urgent=True,
        scopes=AGENT,
        summary="End an attempt to wait for a signal or a time under the same handle.",
        request=requests.ParkTurn,
        answers={200: claim_schemas.Parked},
        codes=(*BODY_CODES, "not_found", "lease_lost", "parks_exhausted", "queue_not_configured"),
    ),
    Call(
        method="POST",
        path="/v1/turns/{id}/signals/{name}",
        handler=signal_turn,
        scopes=ACCEPT | AGENT | APPROVE,
        any_name=True,
        summary="Tell a turn something under a name: the first wins, kept where nobody waits for it yet.",
        request=requests.SignalTurn,
        answers={200: claim_schemas.Signalled},
        codes=(
            *BODY_CODES,
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
        codes=(*BODY_CODES, "not_found", "lease_lost", "already_sealed", "queue_not_configured"),
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
            *BODY_CODES,
            "not_found",
            "payload_changed",
            "already_decided",
            "revisions_exhausted",
            "not_held",
            "integrity",
            "queue_not_configured",
        ),
    ),
)
