"""The calls that come most go from the connection straight to their endpoints, and their answers straight back.

The endpoint is the same as the framework's, and so is what it answers: what is left out is looking for a route, layers
that are there for what no call of ours uses, and the messages between server and application.
"""

import re
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from app.api.bodies import Streamed
from app.api.calls import Call
from app.api.exchange import EXCHANGE, Exchange
from app.api.middleware import Surroundings

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]

# All are POST. An id stands between a collection and a verb.
FREQUENT: Final = (
    "/v1/inbound",
    "/v1/turns/claim",
    "/v1/turns/{id}/renew",
    "/v1/turns/{id}/seal",
    "/v1/sources/{source}",
)
# Targets with anything else in them go the long way: there they are decoded, and refused.
_TURN: Final = re.compile(rb"(/v1/turns/)([A-Za-z0-9_]+)(/[a-z]+)")
_SOURCE: Final = re.compile(rb"/v1/sources/([A-Za-z0-9_.-]+)")


class Shortcut:
    """The way of one request to its endpoint, which the server runs like an application."""

    __slots__ = ("_call", "_endpoint", "_parameters", "_surroundings")

    def __init__(
        self,
        surroundings: Surroundings,
        call: Call,
        endpoint: Endpoint,
        parameters: Mapping[str, str],
    ) -> None:
        self._surroundings = surroundings
        self._call = call
        self._endpoint = endpoint
        self._parameters = parameters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        surroundings = self._surroundings
        scope["path_params"] = self._parameters
        exchange: Exchange = scope[EXCHANGE]
        started, status = time.monotonic(), 0
        try:
            response = await self._endpoint(Request(scope, receive, send))
            status = response.status_code
            if isinstance(response, Streamed) or not exchange.can_answer(response):

                async def sending(message: Message) -> None:
                    await send(surroundings.added(message, private=True))

                await response(scope, receive, sending)
            else:
                exchange.answer(response, surroundings.lines(exchange))
        finally:
            surroundings.count(self._call.path, status, time.monotonic() - started)


class Shortcuts:
    """Knows the way to the endpoints of frequent calls."""

    def __init__(
        self, endpoints: Mapping[str, tuple[Call, Endpoint]], *, surroundings: Surroundings
    ) -> None:
        self._surroundings = surroundings
        self._whole = {
            path.encode(): Shortcut(surroundings, *known, {})
            for path, known in endpoints.items()
            if "{" not in path
        }
        self._around_an_id = {
            (collection.encode(), verb.encode()): known
            for path, known in endpoints.items()
            if "{id}" in path
            for collection, verb in [path.split("{id}")]
        }
        self._source = endpoints.get("/v1/sources/{source}")

    def find(self, target: bytes) -> Shortcut | None:
        """The way of a POST to this target, if there is a short one."""
        found = self._whole.get(target)
        if found is not None:
            return found
        if (turn := _TURN.fullmatch(target)) is not None:
            known = self._around_an_id.get((turn[1], turn[3]))
            parameters = {"id": turn[2].decode()}
        elif (source := _SOURCE.fullmatch(target)) is not None:
            known, parameters = self._source, {"source": source[1].decode()}
        else:
            return None
        return None if known is None else Shortcut(self._surroundings, *known, parameters)
