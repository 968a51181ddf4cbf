"""Webhooks of providers: verified before anything else is done, committed whole, and answered as each provider expects.

What is decided here is decided by bytes and secrets alone. The database is asked only for what was rightly signed.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from app.api.bodies import TooLarge, read_body
from app.api.calls import Api
from app.api.inbound import note_accepted
from app.api.problems import Refusal, problem
from app.core import Intake, now
from app.core.items import arrivals_of
from app.domain.errors import NotReady
from app.domain.model import Accepted, Arrival
from app.domain.webhook import KEY_UNKNOWN, Batch, Refused, Reply, Request, Result
from app.engine.accept import recall
from app.engine.differing import note_differing
from app.engine.keys import Principal

# Different bodies under one key, beside the first, after which the key is not what its configuration takes it for.
DIFFERENT_MAX: Final = 3

CODES: Final[Mapping[Result, str]] = {
    Result.BAD_SIGNATURE: "signature_invalid",
    Result.TOO_OLD: "body_too_old",
    Result.MALFORMED: "body_unreadable",
    Result.TOO_LARGE: "body_too_large",
    Result.WRONG_METHOD: "method_not_allowed",
    Result.NOT_READY: "source_not_ready",
}
_RETRY_AFTER: Final = "Retry-After"
_LATE: Final = "request_timeout"
# What a body that cannot be read says of it: it may come whole the next time.
_UNREAD: Final = {
    _LATE: Result.NOT_READY,
    "content_encoding_unsupported": Result.MALFORMED,
}

log = logging.getLogger(__name__)


async def receive_webhook(api: Api, request: HttpRequest, _principal: Principal) -> Response:
    """Take what a provider sends. Its success is told once everything in it is committed, or was before."""
    intake = api.core.intakes.get(request.path_params["source"])
    if intake is None:
        raise Refusal("not_found", detail="There is no such source here.")
    try:
        result, reply = await _received(api, intake, request)
    except Refused as refused:
        result, reply = refused.result, intake.provider.reply(refused.result)
        if refused.reason == _LATE:
            # What is left of the body is not waited for.
            reply = replace(reply, headers={**reply.headers, "Connection": "close"})
        if refused.reason == KEY_UNKNOWN:
            api.core.fetched.wanted.add(intake.name)
        told = {"source": intake.name, "reason": refused.reason, "outcome": str(result)}
        log.warning("a webhook was refused", extra=told)
    except TooLarge:
        _count(api, intake, Result.TOO_LARGE)
        raise
    except NotReady as error:
        result, reply = Result.NOT_READY, _later(intake, error.retry_after_seconds)
    _count(api, intake, result)
    return _answer(intake, result, reply)


async def receive_handshake(api: Api, request: HttpRequest, principal: Principal) -> Response:
    """Answer what a provider asks by GET before it sends anything."""
    return await receive_webhook(api, request, principal)


async def _received(api: Api, intake: Intake, request: HttpRequest) -> tuple[Result, Reply]:
    if request.method not in intake.provider.methods:
        raise Refused(Result.WRONG_METHOD, "method")
    came = await _read(api, intake, request)
    keys = api.core.fetched.by_source.get(intake.name)
    read = intake.read(came, keys=keys, now=now())
    if isinstance(read, Reply):
        return Result.IGNORED, read
    for why, times in read.ignored.items():
        api.core.metrics.source_items.labels(intake.name, why).inc(times)
    if not read.items:
        return Result.IGNORED, read.reply or intake.provider.reply(Result.IGNORED)
    arrivals = arrivals_of(api.core, intake, read, came.headers)
    accepted = await _accepted(api, intake, arrivals)
    await _note(api, intake, arrivals, accepted)
    is_new = not all(one.duplicate for one in accepted)
    result = Result.ACCEPTED if is_new else Result.DUPLICATE
    return result, _success(intake, read, result)


async def _read(api: Api, intake: Intake, request: HttpRequest) -> Request:
    try:
        body = await read_body(
            request,
            bytes_max=intake.body_bytes_max,
            seconds_max=api.core.settings.limits.body_seconds_max,
        )
    except Refusal as refusal:
        if refusal.code not in _UNREAD:
            raise
        raise Refused(_UNREAD[refusal.code], refusal.code) from None
    headers: dict[str, str] = {}
    repeated: set[str] = set()
    for name, value in request.scope["headers"]:
        spelled = name.decode("latin-1")
        if spelled in headers:
            repeated.add(spelled)
        headers[spelled] = value.decode("latin-1").strip()
    query = request.scope["query_string"]
    return Request(
        method=request.method,
        public_url=intake.public_url + (f"?{query.decode('latin-1')}" if query else ""),
        headers={name: value for name, value in headers.items() if name not in repeated},
        body=body,
    )


async def _accepted(api: Api, intake: Intake, arrivals: Sequence[Arrival]) -> Sequence[Accepted]:
    """All of them in one transaction; a queue without room for all that is new takes none."""
    queue = intake.settings.queue
    admitted = await api.admission.admit(queue, len(arrivals))
    new = 0
    try:
        if admitted.refusal is not None:
            known = await recall(api.core.pool, arrivals)
            fresh = sum(one is None for one in known)
            if fresh > admitted.count:
                seconds = int(admitted.refusal.headers.get(_RETRY_AFTER, "1"))
                detail = "The queue takes no more at the moment."
                raise NotReady("source_not_ready", detail, retry_after_seconds=seconds)
        # What fails without an answer may have been committed.
        new = admitted.count
        accepted = await api.commits.accept_together(arrivals)
        new = min(admitted.count, sum(not one.duplicate for one in accepted))
        return accepted
    finally:
        api.admission.settle(admitted, new=new)


async def _note(
    api: Api, intake: Intake, arrivals: Sequence[Arrival], accepted: Sequence[Accepted]
) -> None:
    """Count what came; raises `Refused` where what differs tells that the key is none."""
    different = 0
    for arrival, one in zip(arrivals, accepted, strict=True):
        note_accepted(api, arrival, one)
        result = "new" if not one.duplicate else "duplicate" if one.same_body else "differing"
        api.core.metrics.source_items.labels(intake.name, result).inc()
        if result == "differing":
            different = max(
                different,
                await note_differing(
                    api.core.pool,
                    source=intake.name,
                    key=arrival.key,
                    body_hash=arrival.body_hash,
                ),
            )
    if different > DIFFERENT_MAX and intake.provider.has_configured_ids:
        raise Refused(Result.NOT_READY, "id_constant")


def _success(intake: Intake, batch: Batch, result: Result) -> Reply:
    """A duplicate is told what the first delivery was told."""
    return batch.reply or intake.provider.reply(result)


def _later(intake: Intake, seconds: int) -> Reply:
    reply = intake.provider.reply(Result.NOT_READY)
    least = int(reply.headers.get(_RETRY_AFTER, "1"))
    headers = {**reply.headers, _RETRY_AFTER: str(max(least, seconds))}
    return Reply(reply.status, reply.body, reply.content_type, headers)


def _count(api: Api, intake: Intake, result: Result) -> None:
    api.core.metrics.source_requests.labels(intake.name, result).inc()


def _answer(intake: Intake, result: Result, reply: Reply) -> Response:
    headers = dict(reply.headers)
    if result is Result.WRONG_METHOD:
        headers["Allow"] = ", ".join(sorted(intake.provider.methods))
    code = CODES.get(result)
    if code is None or reply.body or reply.content_type:
        return Response(reply.body, reply.status, headers, reply.content_type)
    return problem(code, status=reply.status, headers=headers)
