"""Claims over HTTP: an agent waits for turns; what is leased to a client that has left is given back free."""

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.answers import json_answer, with_members
from app.api.auth import KNOWN_SECONDS
from app.api.bodies import Streamed
from app.api.calls import Api
from app.api.exchange import EXCHANGE, Exchange, exchange_of
from app.api.fields import Fields
from app.api.histories import history_json
from app.api.inbound import inbound_members
from app.api.problems import ClientGone
from app.api.turns import hand_back
from app.domain.errors import NotReady
from app.domain.ids import TURN_PREFIX, format_id
from app.domain.json_text import Kind, parse_envelope
from app.domain.media import JSON
from app.domain.model import Claimed, ClaimRequest, HandBack
from app.engine.claim_request import forget_request
from app.engine.inspect import Place
from app.engine.keys import Principal
from app.engine.wake import turn_topic

REQUEST_ID_CHARACTERS_MIN: Final = 16
# What a socket takes at once in any case.
AT_ONCE_BYTES_MAX: Final = 32 << 10
_LOOKS_AROUND: Final = 3

_SHAPE: Final = {
    "queue": Kind.VALUE,
    "agent": Kind.VALUE,
    "max_turns": Kind.VALUE,
    "lease_seconds": Kind.VALUE,
    "wait_seconds": Kind.VALUE,
    "request_id": Kind.VALUE,
    "code_version": Kind.VALUE,
}

log = logging.getLogger(__name__)


async def claim_turns(api: Api, request: Request, principal: Principal) -> Response:
    """Lease due turns, waiting for them if wished."""
    fields = Fields(parse_envelope(await api.body(request), _SHAPE))
    limits = api.core.settings.limits
    name = fields.string("queue", required=True)
    queue = None if name is None else api.core.settings.queues.get(name)
    if name is not None and (queue is None or not principal.sees(name)):
        fields.refuse("queue", "queue_unknown")
    lease = min(queue.lease_seconds if queue else 1, limits.lease_seconds_max)
    agent = fields.name("agent", required=True)
    turns_max = fields.integer("max_turns", default=1, least=1, most=limits.turns_claim_max)
    lease = fields.integer("lease_seconds", default=lease, least=1, most=limits.lease_seconds_max)
    wait_seconds = fields.seconds("wait_seconds", seconds_max=limits.wait_seconds_max)
    request_id = fields.name(
        "request_id", code="request_id_invalid", least=REQUEST_ID_CHARACTERS_MIN
    )
    code_version = fields.name("code_version")
    fields.check()
    wish = ClaimRequest(
        queue=name or "",
        agent=agent or "",
        turns_max=turns_max,
        lease_seconds=lease,
        answer_bytes_max=limits.answer_bytes_max,
        code_version=code_version,
        principal=principal.key_id,
        request_id=request_id,
        parameters="" if request_id is None else json.dumps([turns_max, lease, code_version]),
        input_age_seconds_max=queue.input_age_max_seconds if queue else None,
    )
    return await _claim(api, request, wish, wait_seconds=wait_seconds)


async def _claim(
    api: Api, request: Request, wish: ClaimRequest, *, wait_seconds: float
) -> Response:
    """Wait, claim, and answer while the client is there; what is for nobody is given back."""
    exchange = exchange_of(request)
    began = time.monotonic()
    claimed = await api.desk.claim(api.desk.seat(wish, exchange, wait_seconds=wait_seconds))
    try:
        if claimed and time.monotonic() - began > KNOWN_SECONDS:
            # A key that was revoked while its claim waited gets nothing.
            await api.authenticator.principal(request.scope["headers"])
    except Exception:
        await _take_back(api, wish, claimed)
        raise
    _note(api, wish, claimed)
    body = claim_body(claimed)
    if not claimed:
        return json_answer(body)
    if len(body) > AT_ONCE_BYTES_MAX or not exchange.flows:
        return LargeClaim(api, wish, claimed, body)
    await _look_around()
    if exchange.gone:
        await _take_back(api, wish, claimed)
        raise ClientGone
    # All of it leaves with this turn of the loop, or nothing.
    return json_answer(body)


async def _look_around() -> None:
    """Let the loop hear what its sockets have to tell: that a client has left."""
    for _ in range(_LOOKS_AROUND):
        await asyncio.sleep(0)


class LargeClaim(Streamed):
    """Turns that do not leave at once, so that it shows whether they leave at all."""

    def __init__(
        self, api: Api, wish: ClaimRequest, claimed: Sequence[Claimed], body: bytes
    ) -> None:
        super().__init__(body, media_type=JSON)
        self._api = api
        self._wish = wish
        self._claimed = claimed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Write; give back what could not be written."""
        exchange: Exchange = scope[EXCHANGE]
        body = bytes(self.body)
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": body[:-1], "more_body": True})
        # Waits until most of it is on its way.
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        await _look_around()
        if exchange.gone:
            await _take_back(self._api, self._wish, self._claimed)
        # Without its last byte nobody has the answer.
        await send({"type": "http.response.body", "body": body[-1:]})


def _note(api: Api, wish: ClaimRequest, claimed: Sequence[Claimed]) -> None:
    core, queue = api.core, wish.queue
    core.metrics.claims.labels(queue, "given" if claimed else "empty").inc()
    if not claimed:
        return
    core.metrics.claimed.labels(queue).inc(len(claimed))
    for one in claimed:
        api.places.remember(Place(one.turn, queue, one.conversation))
        if one.waited_seconds is not None:
            core.metrics.accept_to_claim_seconds.labels(queue).observe(one.waited_seconds)
    core.wakes.tell(*{turn_topic(one.turn) for one in claimed})


async def _take_back(api: Api, wish: ClaimRequest, claimed: Sequence[Claimed]) -> None:
    items = [HandBack(one.turn, one.token, "client_gone", untold=True) for one in claimed]
    try:
        await hand_back(api, items, queue=wish.queue)
        if wish.request_id is not None:
            await forget_request(api.core.pool, wish)
    except NotReady as error:
        # Then their leases end by themselves.
        log.warning(
            "claimed turns were not given back",
            extra={"error": type(error).__name__, "count": len(items)},
        )


def claim_body(claimed: Sequence[Claimed]) -> bytes:
    """Spell the turns; their inbound are in it exactly as they were sent."""
    return b'{"turns":[%b]}' % b",".join(_turn(one) for one in claimed)


def _turn(one: Claimed) -> bytes:
    inputs: list[bytes] = []
    for inbound in one.inbound:
        fields, raw = inbound_members(inbound)
        inputs.append(with_members(fields, *raw))
    fields = {
        "id": format_id(TURN_PREFIX, one.turn),
        "lease_token": str(one.token),
        "attempt": one.attempt,
        "lease_expires_in_seconds": one.lease_expires_in_seconds,
        "conversation": one.conversation,
    }
    return with_members(
        fields,
        ("inbound", b"[%b]" % b",".join(inputs)),
        ("steps", b"[]"),
        ("history", history_json(one.history)),
    )
