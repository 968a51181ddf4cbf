"""What a call of this API is: a method, a path, who may make it, and what it is documented as.

A call cannot be made without its scopes being stated; the installed route authenticates before anything is read.
"""

import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import rfc3339
from app.api.auth import KNOWN_SECONDS, Authenticator, may
from app.api.bodies import EarlyAnswer, TooLarge, read_json_body
from app.api.places import Places
from app.api.problems import Refusal, answer_error
from app.core import Core
from app.domain.errors import InvalidContent, Problem
from app.domain.ids import INBOUND_PREFIX, MESSAGE_PREFIX, TURN_PREFIX, format_id, parse_id
from app.engine.keys import Principal
from app.engine.tombstone import Tombstone, find_tombstone

if TYPE_CHECKING:
    from app.api.admission import Admission
    from app.api.desk import ClaimDesk
    from app.api.group_commits import GroupCommits

_KEPT_FOR_A_TIME: Final = {
    "/v1/inbound/{id}": INBOUND_PREFIX,
    "/v1/turns/{id}": TURN_PREFIX,
    "/v1/outbox/{id}": MESSAGE_PREFIX,
}
PUBLIC: Final[frozenset[str]] = frozenset()
ACCEPT: Final = frozenset({"accept"})
AGENT: Final = frozenset({"agent"})
READ: Final = frozenset({"read"})
APPROVE: Final = frozenset({"approve"})
ADMIN: Final = frozenset({"admin"})
ANYBODY_OF_THE_QUEUE: Final = ACCEPT | AGENT | READ | APPROVE
# What can be wrong with the body of any call that has one.
BODY_CODES: Final = (
    "request_timeout",
    "body_too_large",
    "content_encoding_unsupported",
    "content_type_unsupported",
    "invalid_content",
)
_NOBODY: Final = Principal("", frozenset(), frozenset())


@dataclass(frozen=True, slots=True)
class Api:
    """What every call works with."""

    core: Core
    authenticator: Authenticator
    places: Places
    desk: "ClaimDesk"
    commits: "GroupCommits"
    admission: "Admission"

    async def body(self, request: Request, *, bytes_max: int | None = None) -> bytes:
        """Read a JSON body within the limits."""
        limits = self.core.settings.limits
        return await read_json_body(
            request,
            bytes_max=limits.body_bytes_max if bytes_max is None else bytes_max,
            seconds_max=limits.body_seconds_max,
        )


Handler = Callable[[Api, Request, Principal], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call. `scopes` are those of which a key needs one; `PUBLIC` needs no key.

    `answers` gives the model of each successful status (None: not JSON), `codes` the codes of its own refusals,
    `query` the names and words of its query parameters, `texts` those of them that are any text.
    """

    method: str
    path: str
    handler: Handler
    scopes: frozenset[str]
    summary: str
    answers: Mapping[int, type[BaseModel] | None]
    request: type[BaseModel] | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    texts: frozenset[str] = frozenset()
    headers: Mapping[str, str] = field(default_factory=dict)
    codes: tuple[str, ...] = ()
    # Whether it may use the reserve of database connections: what ends or keeps a lease must not wait for the crowd.
    urgent: bool = False
    # Whether the last part of its path is any text: then a slash in it comes percent-encoded.
    any_name: bool = False

    @property
    def may_be_purged(self) -> bool:
        """Whether it is about one thing that retention removes."""
        return "not_found" in self.codes and self.path.startswith(tuple(_KEPT_FOR_A_TIME))

    @property
    def name(self) -> str:
        """What generated clients name it."""
        name: str = getattr(self.handler, "__name__")  # noqa: B009 - a callable need not have one
        return name


class CallRoute(APIRoute):
    """The route of a call: its endpoint answers by itself, without the framework's parsing."""

    call: Call

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Hand requests to the endpoint as they are."""
        endpoint: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return endpoint


def endpoint_of(call: Call, api: Api) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """What a route runs: authenticate, authorize, call, and translate whatever goes wrong."""

    async def endpoint(request: Request) -> Response:
        try:
            began = time.monotonic()
            principal = await _authorized(api, request, call.scopes)
            if call.scopes and request.scope["query_string"]:
                # What is misspelt, or stands where a body should, must not be done without.
                query_of(request, *call.query)
            response = await _answered(call, api, request, principal)
            if call.method == "GET" and time.monotonic() - began > KNOWN_SECONDS:
                # A key that was revoked while its call waited is told nothing any more.
                await _authorized(api, request, call.scopes)
            return response
        except TooLarge as error:
            return EarlyAnswer(error)
        except Exception as error:  # noqa: BLE001 - the total translation is this one place
            return answer_error(error)

    return endpoint


async def _answered(call: Call, api: Api, request: Request, principal: Principal) -> Response:
    """What is not there any more is told from what never was, while its tombstone stands."""
    try:
        return await call.handler(api, request, principal)
    except Refusal as refusal:
        if refusal.code != "not_found" or not call.may_be_purged:
            raise
        stone = await _tombstone(api, call, request.path_params["id"])
        if stone is None or not principal.sees(stone.queue):
            raise
        turn = format_id(TURN_PREFIX, stone.turn)
        members = {"turn": turn, "state": stone.state, "purged_at": rfc3339(stone.purged_at)}
        raise Refusal("purged", members=members) from refusal


async def _tombstone(api: Api, call: Call, text: str) -> Tombstone | None:
    (prefix,) = (known for path, known in _KEPT_FOR_A_TIME.items() if call.path.startswith(path))
    value = parse_id(prefix, text)
    stone = None if value is None else await find_tombstone(api.core.pool, value)
    # The id of an inbound does not become one of a turn by being spelled like it.
    is_alike = stone is not None and (stone.id == stone.turn) == (prefix == TURN_PREFIX)
    return stone if is_alike else None


async def _authorized(api: Api, request: Request, scopes: frozenset[str]) -> Principal:
    if scopes == PUBLIC:
        return _NOBODY
    principal = await api.authenticator.principal(request.scope["headers"])
    if not may(principal, scopes):
        detail = (
            f"The key may not make this call: it takes the scope {' or '.join(sorted(scopes))}."
        )
        raise Refusal("scope_missing", detail=detail)
    return principal


def path_id(request: Request, prefix: str) -> UUID:
    """Read the id in the path; what is no id is not found."""
    value = parse_id(prefix, request.path_params["id"])
    if value is None:
        raise Refusal("not_found")
    return value


def query_of(request: Request, *names: str) -> dict[str, str]:
    """Read the query; raises `InvalidContent` for names that are unknown or repeated."""
    values: dict[str, str] = {}
    problems: list[Problem] = []
    for name, value in request.query_params.multi_items()[:100]:
        if name not in names or name in values:
            shown = name[:255].encode("utf-8", "replace").decode()
            problems.append(Problem(f"/{shown}", "unknown_field"))
        values[name] = value
    if problems:
        raise InvalidContent(*problems)
    return values
