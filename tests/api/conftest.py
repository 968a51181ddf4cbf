"""The API on a real server, a real database and real sockets: what every test of this folder asks for."""

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import uvicorn
from pydantic import SecretStr

from app.api.application import build_application
from app.api.protocol import protocol_with
from app.api.shortcuts import Shortcuts
from app.console import PAGES
from app.core import Core, open_core
from app.engine.keys import create_key
from app.settings import Destination, Limits, Queue, Settings
from tests.database import Clock, Server
from tests.engine.invariants import broken

if TYPE_CHECKING:
    from fastapi import FastAPI

    from app.engine.database import Pool
    from tests.database import Admin

STRANGER = "sks_0123456789abcdef_" + "x" * 43


@dataclass(slots=True)
class Answer:
    """What came back, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["code"])


class Here:
    """A client that stays."""

    gone = False


@dataclass(slots=True)
class Service:
    """A running API, with a key for each scope."""

    url: str
    port: int
    core: Core
    application: "FastAPI"
    http: aiohttp.ClientSession
    keys: dict[str, str] = field(default_factory=dict)

    def bearer(self, scope: str | None) -> dict[str, str]:
        return {} if scope is None else {"Authorization": f"Bearer {self.keys.get(scope, scope)}"}

    async def call(
        self,
        method: str,
        path: str,
        *,
        scope: str | None = "admin",
        body: bytes | None = None,
        json_body: object = None,
        headers: Mapping[str, str] | None = None,
        seconds_max: float = 20.0,
    ) -> Answer:
        """One request, answered within a stated time."""
        if json_body is not None:
            body = json.dumps(json_body).encode()
        sent = {**({"Content-Type": "application/json"} if body is not None else {})}
        sent |= {**self.bearer(scope), **(headers or {})}
        timeout = aiohttp.ClientTimeout(total=seconds_max)
        async with self.http.request(
            method, self.url + path, data=body, headers=sent, timeout=timeout
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, *, scope: str | None = "admin") -> Answer:
        return await self.call("GET", path, scope=scope)

    async def post(self, path: str, body: object, *, scope: str | None = "admin") -> Answer:
        return await self.call("POST", path, scope=scope, json_body=body)

    async def accept(self, key: str, *, scope: str = "admin", **fields: Any) -> Answer:
        """Accept one inbound."""
        body = {"payload": {"n": 1}, **fields}
        headers = {"Idempotency-Key": key}
        return await self.call("POST", "/v1/inbound", scope=scope, json_body=body, headers=headers)

    async def claim(self, *, scope: str = "admin", **fields: Any) -> Answer:
        """Claim turns of the default queue."""
        body = {"queue": "default", "agent": "agent-1", **fields}
        return await self.call("POST", "/v1/turns/claim", scope=scope, json_body=body)

    async def claimed(self, key: str = "k1", **fields: Any) -> dict[str, Any]:
        """A turn under a lease, from an inbound of its own."""
        await self.accept(key, **fields)
        queue = fields.get("queue", "default")
        (turn,) = (await self.claim(queue=queue)).json["turns"]
        claimed: dict[str, Any] = turn
        return claimed

    async def seal(self, turn: Mapping[str, Any], messages: object, **fields: Any) -> Answer:
        """Seal a claimed turn."""
        body = {"lease_token": turn["lease_token"], "messages": messages, **fields}
        return await self.post(f"/v1/turns/{turn['id']}/seal", body)


def settings_for(database_url: str, **changed: Any) -> Settings:
    """Two queues and three destinations, with limits that tests can reach."""
    own = {
        "queues": {
            "default": Queue(backoff_seconds=0.01),
            "support": Queue(destinations=("crm", "loopback")),
            "open": Queue(conversations="any"),
            "chatty": Queue(coalesce_quiet_seconds=5.0),
        },
        "destinations": {
            "loopback": Destination(kind="loopback", headers_allow=("x-tag",), to_allow=("*",)),
            "crm": Destination(kind="loopback", to_allow=("ann@example.org",)),
            "other": Destination(kind="loopback"),
        },
        "limits": Limits(
            body_bytes_max=64 << 10,
            batch_bytes_max=256 << 10,
            header_seconds_max=1.0,
            body_seconds_max=1.0,
            set_bytes_max=96 << 10,
            messages_max=5,
            metadata_bytes_max=256,
            turns_claim_max=50,
            answer_bytes_max=128 << 10,
        ),
    }
    return Settings(database_url=SecretStr(database_url), **{**own, **changed})


@contextlib.asynccontextmanager
async def serving(core: Core, *, short: bool = True) -> AsyncIterator[Service]:
    """Serve the API of a core on a free port of loopback; if wished without the short ways of frequent calls."""
    # Like the service: the server's own log of requests would show their queries.
    logging.getLogger("uvicorn.access").setLevel("WARNING")
    # The protocol is named: without it the server leaves Nagle on, and each answer costs 40 ms.
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        async with asyncio.TaskGroup() as group:
            application = build_application(core, tasks=group, pages=PAGES)
            none = Shortcuts({}, surroundings=application.front)
            config = uvicorn.Config(
                application,
                http=protocol_with(
                    shortcuts=application.shortcuts if short else none,
                    header_seconds_max=core.settings.limits.header_seconds_max,
                    answer_seconds_max=core.settings.limits.answer_seconds_max,
                    connections_max=core.settings.server.connections_max,
                ),
                loop="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                timeout_keep_alive=core.settings.server.keep_alive_seconds,
                timeout_graceful_shutdown=2,
            )
            server = uvicorn.Server(config)
            server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
            running = group.create_task(server.serve(sockets=[listener]))
            async with asyncio.timeout(10):
                while not server.started:
                    await asyncio.sleep(0.005)
            # Idle connections are let go before the server does, so that no request meets one on its way out.
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=2.0)
            try:
                async with aiohttp.ClientSession(connector=connector) as http:
                    service = Service(f"http://127.0.0.1:{port}", port, core, application, http)
                    try:
                        yield service
                    finally:
                        core.draining.start()
                        server.should_exit = True
            finally:
                # A test that broke, too: a server that is cancelled leaves its socket watched by the loop, which then
                # never hears of another one of the same number.
                await running


async def make_keys(pool: "Pool") -> dict[str, str]:
    """A key for each scope, and one that sees the support queue alone."""
    keys = {
        scope: await create_key(pool, name=scope, scopes=[scope], queues=None)
        for scope in ("accept", "agent", "approve", "read", "admin")
    }
    scopes = ["accept", "agent", "read"]
    keys["support"] = await create_key(pool, name="support", scopes=scopes, queues=["support"])
    return keys


TABLES = (
    "idempotency_key", "inbound", "lane", "turn", "attempt", "claim_request", "delivery_lane",
    "outbox", "outbox_payload", "resend", "event", "loopback", "operation", "tombstone", "pause",
    "standstill", "allowance", "hold", "wait", "signal", "follow_up", "notice", "differing",
    "schedule",
)  # fmt: skip
EMPTY = ";".join(f"delete from sink.{table}" for table in TABLES)


@contextlib.asynccontextmanager
async def opened(database_url: str, **changed: Any) -> AsyncIterator[Service]:
    """A running API on a database, with a key for each scope."""
    settings = settings_for(database_url, **changed)
    async with (
        open_core(settings, application_name="sinksweep-api-test") as core,
        serving(core) as running,
    ):
        running.keys = await make_keys(core.pool)
        yield running


@pytest.fixture(scope="session")
async def database_url(postgres: Server) -> AsyncIterator[str]:
    """One database for all tests of this folder: each finds it empty."""
    async with postgres.database() as url:
        yield url


@pytest.fixture(scope="session")
async def running(database_url: str) -> AsyncIterator[Service]:
    """One server for all tests of this folder."""
    async with opened(database_url) as service:
        yield service


@pytest.fixture
async def service(running: Service, admin: "Admin") -> AsyncIterator[Service]:
    """A running API on an empty database. When the test is over, everything that must always hold is checked."""
    await admin.execute(EMPTY)
    await Clock(admin).travel(0)
    yield running
    assert await broken(admin) == {}


@pytest.fixture
async def fresh(postgres: Server) -> AsyncIterator[Service]:
    """A server of its own, for a test that ends it or takes its database away."""
    async with postgres.database() as url, opened(url) as service:
        yield service
