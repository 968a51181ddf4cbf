"""Inbound over HTTP: accept one, and give it back byte for byte."""

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import json_answer, payload_member, rfc3339, with_members
from app.api.arrivals import SHAPE, idempotency_key, read_arrival
from app.api.auth import sees_messages
from app.api.calls import Api, path_id, query_of
from app.api.problems import Refusal
from app.api.status import status_fields
from app.api.waits import WAIT_PARAMETERS, read_wait, turn_when
from app.domain.ids import INBOUND_PREFIX, TURN_PREFIX, format_id
from app.domain.json_text import parse_envelope
from app.domain.model import Accepted, Arrival, ClaimedInbound
from app.engine.accept import recall
from app.engine.inspect import find_inbound, find_inbound_place
from app.engine.keys import Principal
from app.engine.wake import queue_topic


async def accept_inbound(api: Api, request: Request, principal: Principal) -> Response:
    """Take one inbound. What is answered with 2xx is committed."""
    key = idempotency_key(request)
    body = await api.body(request)
    arrival = read_arrival(api, parse_envelope(body, SHAPE), key=key, principal=principal)
    accepted = await _admitted(api, arrival)
    note_accepted(api, arrival, accepted)
    status, fields = accepted_answer(accepted)
    headers = {"Location": f"/v1/inbound/{fields['id']}"}
    if accepted.duplicate:
        headers["Idempotency-Replayed"] = "true"
    return json_answer(fields, status=status, headers=headers)


async def _admitted(api: Api, arrival: Arrival) -> Accepted:
    """What is new needs room in its queue; what is known is answered in any case: no provider is to retry for ever."""
    if not api.admission.limits(arrival.queue):
        return await api.commits.accept(arrival)
    admitted = await api.admission.admit(arrival.queue)
    if admitted.refusal is not None:
        (known,) = await recall(api.core.pool, [arrival])
        if known is None:
            api.core.metrics.accepts.labels(arrival.queue, admitted.refusal.code).inc()
            raise admitted.refusal
        return known
    # What fails without an answer may have been committed.
    new = admitted.count
    try:
        accepted = await api.commits.accept(arrival)
        new = int(not accepted.duplicate)
        return accepted
    finally:
        api.admission.settle(admitted, new=new)


def note_accepted(api: Api, arrival: Arrival, accepted: Accepted) -> None:
    """Count what was accepted, and tell who waits for it."""
    if not accepted.duplicate:
        api.core.wakes.tell(queue_topic(arrival.queue))
    result = "new" if not accepted.duplicate else "duplicate" if accepted.same_body else "reused"
    api.core.metrics.accepts.labels(arrival.queue, result).inc()


def accepted_answer(accepted: Accepted) -> tuple[int, dict[str, object]]:
    """Status and fields of what was accepted; raises `Refusal` where its key stands for another body."""
    inbound = format_id(INBOUND_PREFIX, accepted.inbound)
    turn = format_id(TURN_PREFIX, accepted.turn)
    if not accepted.same_body:
        raise Refusal("idempotency_key_reused", members={"id": inbound, "turn": turn})
    fields = {
        "id": inbound,
        "turn": turn,
        "state": accepted.state,
        "duplicate": accepted.duplicate,
        "key_expires_at": rfc3339(accepted.key_expires_at),
    }
    return 200 if accepted.duplicate else 202, fields


async def show_inbound(api: Api, request: Request, principal: Principal) -> Response:
    """One inbound with what became of it."""
    inbound = path_id(request, INBOUND_PREFIX)
    wait = read_wait(query_of(request, *WAIT_PARAMETERS), limits=api.core.settings.limits)
    place = await find_inbound_place(api.core.pool, inbound)
    if place is None or not principal.sees(place.queue):
        raise Refusal("not_found")
    turn = await turn_when(api.core, place.turn, wait=wait)
    # Read only now: no body is held while somebody waits.
    view = await find_inbound(api.core.pool, inbound)
    if turn is None or view is None:
        raise Refusal("not_found")
    status = status_fields(turn, messages=sees_messages(principal))
    fields, raw = inbound_members(view.content)
    fields |= {"turn": format_id(TURN_PREFIX, view.turn)}
    return json_answer(with_members(fields | status, *raw))


async def show_payload(api: Api, request: Request, principal: Principal) -> Response:
    """The bytes of one inbound, to keep and not to show."""
    view = await find_inbound(api.core.pool, path_id(request, INBOUND_PREFIX))
    if view is None or not principal.sees(view.queue):
        raise Refusal("not_found")
    headers = {
        "Content-Type": view.content.content_type,
        "Content-Disposition": f'attachment; filename="{request.path_params["id"]}"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return Response(view.content.body or b"", headers=headers)


def inbound_members(
    inbound: ClaimedInbound,
) -> tuple[dict[str, object], tuple[tuple[str, bytes], ...]]:
    """Spell one inbound: plain fields, and members that stand as JSON already."""
    name = format_id(INBOUND_PREFIX, inbound.id)
    fields: dict[str, object] = {
        "id": name,
        "source": inbound.source,
        "received_at": rfc3339(inbound.received_at),
        "content_type": inbound.content_type,
        "headers": dict(inbound.headers),
    }
    metadata = ("metadata", (inbound.metadata or "null").encode())
    view = ("view", (inbound.view or "null").encode())
    if inbound.body is None:
        fields["payload_url"] = f"/v1/inbound/{name}/payload"
        return fields, (metadata, view)
    return fields, (metadata, view, payload_member(inbound.body, strict_json=inbound.strict_json))
