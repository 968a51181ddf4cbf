"""The HTTP application: the table of calls, installed on one core. It keeps nothing outside of it."""

import asyncio
import re
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from app import VERSION
from app.api.admission import Admission
from app.api.answers import json_answer
from app.api.auth import Authenticator
from app.api.calls import PUBLIC, Api, Call, CallRoute, endpoint_of
from app.api.desk import ClaimDesk
from app.api.group_commits import GroupCommits
from app.api.middleware import Surroundings
from app.api.openapi import document
from app.api.operations import Readiness
from app.api.pages import Pages, page_calls
from app.api.places import Places
from app.api.problems import answer_error
from app.api.routes import CALLS, operations
from app.api.shortcuts import FREQUENT, Endpoint, Shortcuts
from app.core import Core
from app.engine.keys import Principal, find_principal
from app.engine.wake import EVERYBODY

OPENAPI_PATH: Final = "/openapi.json"


class Application(FastAPI):
    """The framework behind what surrounds every request."""

    front: Surroundings
    # For the server: the framework knows of none.
    shortcuts: Shortcuts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        await self.front(scope, receive, send)

    async def framework(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request as the framework does."""
        await super().__call__(scope, receive, send)


def build_application(
    core: Core,
    *,
    tasks: asyncio.TaskGroup,
    api: bool = True,
    pages: Pages = MappingProxyType({}),
) -> Application:
    """Build the application of one process; it needs no lifespan. `tasks` runs as long as it is served.

    Without `api` it answers only what every role answers: liveness, readiness and metrics. `pages` go with the API.
    """
    calling = Api(
        core=core,
        authenticator=Authenticator(partial(find_principal, core.pool)),
        places=Places(core.pool),
        desk=ClaimDesk(core),
        commits=GroupCommits(core, tasks=tasks),
        admission=Admission(core),
    )

    application = Application(
        title="Sinksweep",
        version=VERSION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={
            HTTPException: _answer,
            RequestValidationError: _answer,
            Exception: _answer,
        },
    )
    application.state.core = core
    # Everybody who waits here looks up, and sees that there is nothing to wait for.
    core.draining.when_started(lambda: core.wakes.wake_here(EVERYBODY))
    # Keys are looked up apart: whoever floods other calls with keys that are nobody's takes nothing from these.
    urgent = replace(
        calling,
        core=replace(core, pool=core.urgent),
        authenticator=Authenticator(partial(find_principal, core.urgent)),
        places=calling.places.over(core.urgent),
    )
    calls = operations(Readiness(core))
    if api:
        calls = [*CALLS, *calls]
        calls = [*calls, _openapi(calls), *page_calls(pages)]
    frequent: dict[str, tuple[Call, Endpoint]] = {}
    for call in calls:
        endpoint = endpoint_of(call, urgent if call.urgent else calling)
        _install(application, call, endpoint)
        if call.method == "POST" and call.path in FREQUENT:
            frequent[call.path] = call, endpoint
    surroundings = Surroundings(application.framework, metrics=core.metrics, draining=core.draining)
    application.front = surroundings
    application.shortcuts = Shortcuts(frequent, surroundings=surroundings)
    return application


def _install(application: FastAPI, call: Call, endpoint: Endpoint) -> None:
    route = CallRoute(
        call.path,
        endpoint,
        methods=[call.method],
        name=call.path,
        response_model=None,
        include_in_schema=False,
    )
    route.call = call
    if call.any_name:
        # What is encoded is decoded before a route is looked for. The handler reads the path as it was sent.
        pattern, _, route.param_convertors = compile_path(f"{call.path.removesuffix('}')}:path}}")
        route.path_regex = re.compile(pattern.pattern, re.DOTALL)
    application.router.routes.append(route)


def _openapi(calls: list[Call]) -> Call:
    written = document(calls, version=VERSION)

    async def show_openapi(_api: Api, _request: Request, _principal: Principal) -> Response:
        return json_answer(written)

    return Call(
        method="GET",
        path=OPENAPI_PATH,
        handler=show_openapi,
        scopes=PUBLIC,
        summary="This document.",
        answers={200: None},
    )


async def _answer(_request: Request, error: Exception) -> Response:
    return answer_error(error)
