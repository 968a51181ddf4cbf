"""What whoever runs the service asks: is it alive, is it ready, how is it doing. None of it needs a key."""

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from app.api.answers import json_answer
from app.api.calls import Api
from app.core import Core, Intake
from app.engine.inspect import oldest_queued_seconds
from app.engine.keys import Principal

DATABASE_SECONDS_MAX: Final = 2.0
KNOWN_SECONDS: Final = 1.0
NAMES_SHOWN_MAX: Final = 20

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Readiness:
    """Whether work can be done here. The database is asked at most once a second, whoever asks."""

    core: Core
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _known: bool = False
    _until: float = 0.0

    async def show_readiness(self, _api: Api, _request: Request, _principal: Principal) -> Response:
        """Ready or not, with every check."""
        now = time.monotonic()
        loops = {
            name: now - finished <= age_max
            for name, (finished, age_max) in self.core.passes.items()
        }
        draining = self.core.draining.started
        database = await self._database()
        sources = {
            name: wanting
            for name, intake in self.core.intakes.items()
            if (wanting := self._wanting(intake))
        }
        ready = database and not draining and all(loops.values()) and not sources
        checks = {
            "database": database,
            "loops": loops,
            "draining": draining,
            # What keeps a source from verifying anything: it answers that it is to be asked again.
            "sources": sources,
            # Shown, and no reason to send anybody elsewhere: it waits, and this replica does the rest.
            "unconfigured": {
                kind: names[:NAMES_SHOWN_MAX]
                for kind, names in self.core.unconfigured.items()
                if names
            },
        }
        return json_answer({"ready": ready, "checks": checks}, status=200 if ready else 503)

    def _wanting(self, intake: Intake) -> list[str]:
        wanting = intake.missing()
        if intake.provider.has_fetched_keys and intake.name not in self.core.fetched.by_source:
            wanting.append("public keys")
        return wanting

    async def _database(self) -> bool:
        async with self._asking:
            if time.monotonic() >= self._until:
                self._known = await self._ask()
                self._until = time.monotonic() + KNOWN_SECONDS
            return self._known

    async def _ask(self) -> bool:
        try:
            async with asyncio.timeout(DATABASE_SECONDS_MAX):
                # Through the reserve: a crowd makes nobody unready, or the others would have it all.
                await oldest_queued_seconds(self.core.urgent, [])
        except Exception as error:  # noqa: BLE001 - whatever it is, the service is not ready
            log.warning("the database is not ready", extra={"error": type(error).__name__})
            return False
        return True


async def show_liveness(_api: Api, _request: Request, _principal: Principal) -> Response:
    """Alive: the process answers. The database is not asked, since a restart would not bring it back."""
    return PlainTextResponse("alive\n")


async def show_metrics(api: Api, _request: Request, _principal: Principal) -> Response:
    """Every metric of this process, for Prometheus."""
    core = api.core
    idle = core.pool.get_idle_size()
    core.metrics.pool_connections.labels("idle").set(idle)
    core.metrics.pool_connections.labels("busy").set(core.pool.get_size() - idle)
    core.metrics.pool_connections_max.set(core.pool.get_max_size())
    core.metrics.pool_waiting.set(core.pool_watch.waiting)
    core.metrics.wakes_listening.set(core.wakes.listening)
    if core.wakes.clock_ahead_seconds is not None:
        core.metrics.clock_ahead_seconds.set(core.wakes.clock_ahead_seconds)
    now = time.monotonic()
    for name, (finished, _) in core.passes.items():
        core.metrics.pass_age_seconds.labels(name).set(now - finished)
    headers = {"Content-Type": CONTENT_TYPE_LATEST}
    return Response(generate_latest(core.metrics.registry), headers=headers)
