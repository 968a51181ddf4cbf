"""A verb over many, as a durable operation: begun here or only counted, watched, and stopped; sweepers do the work."""

from collections.abc import Mapping
from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import json_answer, rfc3339
from app.api.calls import Api, path_id, query_of
from app.api.cursors import read_cursor, write_cursor
from app.api.fields import Fields, moment
from app.api.interventions import read_nothing
from app.api.problems import Refusal
from app.api.search import PAGE, read_limit
from app.domain.ids import OPERATION_PREFIX, format_id
from app.domain.json_text import Kind as Reading
from app.domain.json_text import parse_envelope
from app.domain.lifecycle import MessageState, TurnState
from app.engine.keys import Principal
from app.engine.matching import Filter, Kind
from app.engine.operation import (
    STATES,
    Operation,
    Order,
    Verb,
    begin_operation,
    cancel_operation,
    count_matches,
    find_operation,
    list_operations,
    queue_is_known,
)
from app.engine.pages import LATEST
from app.engine.wake import SWEEP

REASON_BYTES_MAX: Final = 1000

_BODY: Final = dict.fromkeys(("verb", "filter", "dry_run", "reason", "outcome"), Reading.VALUE)
_VERBS: Final[Mapping[str, Verb]] = {
    "cancel": "cancel",
    "redrive": "redrive",
    "resolve": "resolve",
    "resend": "resend",
}
_FILTERS: Final[Mapping[Kind, frozenset[str]]] = {
    "turn": frozenset(
        {"all", "state", "queue", "conversation", "reason", "created_after", "created_before"}
    ),
    "message": frozenset(
        {"all", "state", "queue", "destination", "reason", "delivered_after", "delivered_before"}
    ),
}
_STATES: Final[Mapping[Kind, frozenset[str]]] = {
    "turn": frozenset(TurnState),
    "message": frozenset(MessageState),
}


async def bulk_turns(api: Api, request: Request, principal: Principal) -> Response:
    """Cancel or redrive every turn that matches."""
    return await _bulk(api, request, principal, kind="turn")


async def bulk_messages(api: Api, request: Request, principal: Principal) -> Response:
    """Cancel, redrive, resolve or resend every message that matches."""
    return await _bulk(api, request, principal, kind="message")


async def _bulk(api: Api, request: Request, principal: Principal, *, kind: Kind) -> Response:
    fields = Fields(parse_envelope(await api.body(request), _BODY))
    dry_run = fields.flag("dry_run")
    order = _read_order(fields, kind, principal)
    queue = order.asked.get("queue")
    if isinstance(queue, str) and not fields.problems:
        # A misspelt one must not look like one with nothing to do.
        known = queue in api.core.settings.queues or await queue_is_known(api.core.pool, queue)
        if not (known and principal.sees(queue)):
            fields.refuse("filter/queue", "queue_unknown")
    fields.check()
    if dry_run:
        found, more = await count_matches(api.core.pool, order, until=LATEST)
        return json_answer({"dry_run": True, "found": found, "more": more})
    operation = await begin_operation(api.core.pool, order, ids=api.core.ids, by=principal.key_id)
    api.core.wakes.tell(SWEEP)
    answer = _fields(operation)
    headers = {"Location": f"/v1/operations/{answer['id']}"}
    return json_answer(answer, status=202, headers=headers)


def _read_order(fields: Fields, kind: Kind, principal: Principal) -> Order:
    """What is to be done to what. What is wrong with it is noted in `fields`."""
    verb = _verb(fields, kind)
    outcome = _outcome(fields, verb)
    reason = fields.text("reason", bytes_max=REASON_BYTES_MAX)
    given = fields.values.get("filter")
    if given is not None and not isinstance(given, dict):
        fields.refuse("filter", "wrong_type", "an object is needed")
        given = None
    asked = {name: value for name, value in (given or {}).items() if value is not None}
    chosen = Fields(asked, pointer="/filter", problems=fields.problems)
    for name in asked:
        if name not in _FILTERS[kind]:
            chosen.refuse(name[:255].encode("utf-8", "replace").decode(), "unknown_field")
        elif name.startswith("delivered_") and verb != "resend":
            chosen.refuse(name, "unknown_field", "only resend is about what was delivered")
    if not chosen.flag("all") and not asked.keys() - {"all"} and not fields.problems:
        fields.refuse("filter", "filter_missing")
    queue = chosen.name("queue")
    wanted = Filter(
        states=_states(chosen, kind, verb),
        queues=[queue] if queue is not None else _queues(principal),
        conversation=chosen.name("conversation", code="conversation_invalid"),
        destination=chosen.name("destination"),
        reason=chosen.text("reason", bytes_max=REASON_BYTES_MAX),
        created_after=moment(chosen, "created_after", asked.get("created_after")),
        created_before=moment(chosen, "created_before", asked.get("created_before")),
        delivered_after=moment(chosen, "delivered_after", asked.get("delivered_after")),
        delivered_before=moment(chosen, "delivered_before", asked.get("delivered_before")),
    )
    return Order(kind=kind, verb=verb, wanted=wanted, asked=asked, outcome=outcome, reason=reason)


def _queues(principal: Principal) -> list[str] | None:
    return None if principal.queues is None else sorted(principal.queues)


def _verb(fields: Fields, kind: Kind) -> Verb:
    text = fields.string("verb", required=True)
    verb = _VERBS.get(text or "")
    if verb is None or (kind, verb) not in STATES:
        if text is not None:
            known = ", ".join(verb for of, verb in STATES if of == kind)
            fields.refuse("verb", "verb_unknown", f"known are {known}")
        return "cancel"
    return verb


def _outcome(fields: Fields, verb: Verb) -> Literal["delivered", "cancelled"] | None:
    outcome = fields.string("outcome", required=verb == "resolve")
    match outcome:
        case None:
            return None
        case "delivered" | "cancelled" if verb == "resolve":
            return outcome
        case _ if verb == "resolve":
            fields.refuse("outcome", "state_unknown", "delivered or cancelled")
        case _:
            fields.refuse("outcome", "unknown_field", "only resolve has an outcome")
    return None


def _states(fields: Fields, kind: Kind, verb: Verb) -> tuple[str, ...]:
    """The states that were asked for, all of which the verb does something to; without any, all such."""
    possible = STATES[kind, verb]
    given = fields.values.get("state")
    if given is None:
        return possible
    states = [given] if isinstance(given, str) else given
    if not isinstance(states, list) or not states or not all(isinstance(s, str) for s in states):
        fields.refuse("state", "wrong_type", "a state, or an array of states, is needed")
    elif not _STATES[kind].issuperset(states):
        fields.refuse("state", "state_unknown")
    elif not set(states) <= set(possible):
        fields.refuse("state", "state_not_for_verb", f"{verb} is for {', '.join(possible)}")
    else:
        return tuple(dict.fromkeys(states))
    return possible


async def show_operation(api: Api, request: Request, principal: Principal) -> Response:
    """How far an operation is."""
    return json_answer(_fields(await _visible(api, request, principal)))


async def list_all_operations(api: Api, request: Request, principal: Principal) -> Response:
    """Operations, newest first."""
    query = query_of(request, *PAGE)
    limit = read_limit(query)
    question: dict[str, object] = {"list": "operations"}
    before = read_cursor(query.get("cursor"), question=question, principal=principal)
    found = await list_operations(
        api.core.pool, queues=_queues(principal), before=before or LATEST, limit=limit + 1
    )
    end = found[limit - 1].id if len(found) > limit else None
    return json_answer(
        {
            "items": [_fields(operation) for operation in found[:limit]],
            "next_cursor": write_cursor(end, question=question, principal=principal),
        }
    )


async def stop_operation(api: Api, request: Request, principal: Principal) -> Response:
    """Stop an operation. What it has done stays done."""
    await read_nothing(api, request)
    operation = await _visible(api, request, principal)
    stopped = await cancel_operation(api.core.pool, operation.id)
    if stopped is None:
        raise Refusal("not_found")
    if stopped.state == "done":
        raise Refusal(
            "not_cancellable",
            detail="It is done: there is nothing left to stop.",
            members={"operation_state": stopped.state},
        )
    return json_answer(_fields(stopped))


async def _visible(api: Api, request: Request, principal: Principal) -> Operation:
    """Find an operation that is about nothing that the key may not see."""
    operation = await find_operation(api.core.pool, path_id(request, OPERATION_PREFIX))
    if operation is None:
        raise Refusal("not_found")
    queues = operation.order.wanted.queues
    if principal.queues is not None and (queues is None or not principal.queues.issuperset(queues)):
        raise Refusal("not_found")
    return operation


def _fields(operation: Operation) -> dict[str, object]:
    order, ended_at = operation.order, operation.ended_at
    return {
        "id": format_id(OPERATION_PREFIX, operation.id),
        "kind": order.kind,
        "verb": order.verb,
        "outcome": order.outcome,
        "filter": dict(order.asked),
        "reason": order.reason,
        "state": operation.state,
        "created_at": rfc3339(operation.created_at),
        "created_by": operation.created_by,
        "ended_at": None if ended_at is None else rfc3339(ended_at),
        "found": operation.found,
        "changed": operation.changed,
        "refused": operation.refused,
        "failed": operation.failed,
    }
