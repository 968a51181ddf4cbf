"""The calls that come most go straight to their endpoints, past the layers of the framework; all else goes its way.

The endpoint is the same, and so is what it answers: what is left out is looking for a route one by one, and layers that
are there for what no call of ours uses.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.calls import Call

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]

# All are POST. An id stands between a collection and a verb.
FREQUENT: Final = (
    "/v1/inbound",
    "/v1/turns/claim",
    "/v1/turns/{id}/renew",
    "/v1/turns/{id}/seal",
    "/v1/sources/{source}",
)
# What a path of one name behind a collection begins with.
_SOURCES: Final = "/v1/sources/"
_PARTS: Final = 5
_ID: Final = "{id}"


class Shortcuts:
    """Runs the endpoint of a frequent call; hands every other request to `app`."""

    def __init__(self, app: ASGIApp, endpoints: Mapping[str, tuple[Call, Endpoint]]) -> None:
        self._app = app
        self._whole = {path: known for path, known in endpoints.items() if "{" not in path}
        self._source = endpoints.get(f"{_SOURCES}{{source}}")
        self._around_an_id = {
            (collection, verb): known
            for path, known in endpoints.items()
            if _ID in path
            for collection, verb in [path.split(_ID)]
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http" and scope["method"] == "POST":
            path: str = scope["path"]
            known, parameters = self._whole.get(path), dict[str, str]()
            if known is None and path.count("/") == _PARTS - 1:
                before, id_, verb = path.rsplit("/", 2)
                known = self._around_an_id.get((f"{before}/", f"/{verb}")) if id_ else None
                parameters["id"] = id_
            elif known is None and path.startswith(_SOURCES):
                known = self._source
                parameters["source"] = path.removeprefix(_SOURCES)
            if known is not None:
                scope["route"], endpoint = known
                scope["path_params"] = parameters
                response = await endpoint(Request(scope, receive, send))
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)
