"""What people stop and let go on: a queue, a source, a destination, or everything. Each call may be repeated."""

import logging
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import json_answer, rfc3339
from app.api.calls import Api
from app.api.fields import Fields
from app.api.problems import Refusal
from app.domain.json_text import Kind, parse_envelope
from app.engine.keys import Principal
from app.engine.overview import names_in_use
from app.engine.pause import EVERYTHING, Pause, find_pauses, pause, resume
from app.engine.pause import Kind as Paused
from app.engine.wake import EVERYBODY, OUTBOX, RESEND, SWEEP, queue_topic

REASON_BYTES_MAX: Final = 1000
_SHARED: Final = "The key is bound to queues, and this is shared with others."

log = logging.getLogger(__name__)


async def pause_everything(api: Api, request: Request, principal: Principal) -> Response:
    """Stop everything: no turn is given, and nothing is sent. Inbound are accepted."""
    return await _pause(api, request, principal, "all")


async def resume_everything(api: Api, request: Request, principal: Principal) -> Response:
    """Let everything go on that is not paused by itself."""
    return await _resume(api, request, principal, "all")


async def pause_queue(api: Api, request: Request, principal: Principal) -> Response:
    """Give no turn of this queue to anybody."""
    return await _pause(api, request, principal, "queue")


async def resume_queue(api: Api, request: Request, principal: Principal) -> Response:
    """Give its turns again."""
    return await _resume(api, request, principal, "queue")


async def pause_source(api: Api, request: Request, principal: Principal) -> Response:
    """Accept what comes from this source, and let it wait."""
    return await _pause(api, request, principal, "source")


async def resume_source(api: Api, request: Request, principal: Principal) -> Response:
    """Let what waited become due, in the order in which it came."""
    return await _resume(api, request, principal, "source")


async def pause_destination(api: Api, request: Request, principal: Principal) -> Response:
    """Send nothing to this destination. Its messages do not age meanwhile."""
    return await _pause(api, request, principal, "destination")


async def resume_destination(api: Api, request: Request, principal: Principal) -> Response:
    """Send again, also where the breaker or the destination itself had stopped it."""
    return await _resume(api, request, principal, "destination")


def pause_fields(paused: Pause | None) -> dict[str, object] | None:
    """Spell a pause, if there is one."""
    if paused is None:
        return None
    return {"at": rfc3339(paused.at), "by": paused.by, "reason": paused.reason}


async def _pause(api: Api, request: Request, principal: Principal, kind: Paused) -> Response:
    reason = await _read_reason(api, request)
    name = await _name(api, request, principal, kind)
    paused = await pause(api.core.pool, kind, name, by=principal.key_id, reason=reason)
    log.warning("paused", extra={"reason": kind, **_named(kind, name)})
    return _answer(kind, name, paused)


async def _resume(api: Api, request: Request, principal: Principal, kind: Paused) -> Response:
    await _read_reason(api, request)
    name = await _name(api, request, principal, kind)
    await resume(api.core.pool, kind, name)
    log.warning("resumed", extra={"reason": kind, **_named(kind, name)})
    topics = {
        "all": (EVERYBODY,),
        "queue": (queue_topic(name),),
        "source": (SWEEP,),
        "destination": (OUTBOX, RESEND),
    }
    api.core.wakes.tell(*topics[kind])
    return _answer(kind, name, None)


async def _read_reason(api: Api, request: Request) -> str | None:
    """The body may be left out."""
    sent = request.headers.get("content-length", "0") != "0"
    body = b""
    if sent or "transfer-encoding" in request.headers:
        body = await api.body(request)
    fields = Fields(parse_envelope(body or b"{}", {"reason": Kind.VALUE}))
    reason = fields.text("reason", bytes_max=REASON_BYTES_MAX)
    fields.check()
    return reason


async def _name(api: Api, request: Request, principal: Principal, kind: Paused) -> str:
    """Whose pause it is: something that is configured, that rows name, or that is paused, and that the key sees."""
    if kind != "queue" and principal.queues is not None:
        # Whether there is such a thing is not told: it may be another queue's alone.
        raise Refusal("scope_missing", detail=_SHARED)
    if kind == "all":
        return EVERYTHING
    name: str = request.path_params["name"]
    if kind == "queue" and not principal.sees(name):
        raise Refusal("not_found")
    known = name in api.core.configured[kind]
    if not known:
        known = name in (await names_in_use(api.core.pool))[kind]
        known = known or (kind, name) in await find_pauses(api.core.pool)
    if not known:
        raise Refusal("not_found")
    return name


def _named(kind: Paused, name: str) -> dict[str, str]:
    return {kind: name} if kind in ("queue", "destination") else {}


def _answer(kind: Paused, name: str, paused: Pause | None) -> Response:
    fields = {"kind": kind, "name": name or None, "paused": pause_fields(paused)}
    return json_answer(fields)
