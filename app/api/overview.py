"""What is configured, what it has to do, and how it is: queues, sources and destinations. Nothing secret is in it.

What rows name and this replica does not know is shown too: it waits until it is configured again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import json_answer, rfc3339
from app.api.calls import Api
from app.api.pauses import pause_fields
from app.core import Core, Intake
from app.domain.model import API_SOURCE
from app.engine.breaker import DestinationView, find_destinations
from app.engine.differing import Differing, find_differing
from app.engine.inspect import oldest_pending_seconds, oldest_queued_seconds
from app.engine.keys import Principal
from app.engine.overview import (
    destination_load,
    names_in_use,
    queue_load,
    source_load,
)
from app.engine.pause import EVERYTHING, Pause, find_pauses

_QUEUE_FIELDS: Final = (
    "attempts_max",
    "lease_seconds",
    "destinations",
    "coalesce_quiet_seconds",
    "input_age_max_seconds",
    "length_max",
    "rate_per_second",
)
_DESTINATION_FIELDS: Final = (
    "kind",
    "attempts_max",
    "age_seconds_max",
    "timeout_seconds",
    "concurrency_max",
    "rate_per_second",
    "pace_seconds",
    "key_ttl_seconds",
    "on_unknown",
)

_Pauses = Mapping[tuple[str, str], Pause]


async def list_queues(api: Api, _request: Request, principal: Principal) -> Response:
    """The queues that the key sees."""
    core = api.core
    pauses = await find_pauses(core.pool)
    known = await _names(core, "queue", pauses)
    names = sorted(name for name in known if principal.sees(name))
    load = await queue_load(core.pool, names)
    oldest = await oldest_queued_seconds(core.pool, names)
    items = [
        {
            "name": name,
            "configured": name in core.settings.queues,
            "paused": pause_fields(pauses.get(("queue", name))),
            "policy": _policy(core.settings.queues.get(name), _QUEUE_FIELDS),
            "turns": load[name],
            "oldest_queued_seconds": oldest.get(name),
        }
        for name in names
    ]
    return _list(items, pauses)


async def list_sources(api: Api, _request: Request, principal: Principal) -> Response:
    """The sources. A key that is bound to queues does not see what they hold up for all."""
    core = api.core
    pauses = await find_pauses(core.pool)
    bound = principal.queues is not None
    names = [API_SOURCE] if bound else sorted(await _names(core, "source", pauses))
    load = {} if bound else await source_load(core.pool, names)
    differing = [] if bound else await find_differing(core.pool, names)
    items = [
        {
            "name": name,
            **_intake_fields(core.intakes.get(name)),
            "differing": [_differing(one) for one in differing if one.source == name],
            "configured": name in core.configured["source"],
            "paused": pause_fields(pauses.get(("source", name))),
            "held": load[name].held if name in load else None,
            "oldest_held_seconds": load[name].oldest_seconds if name in load else None,
        }
        for name in names
    ]
    return _list(items, pauses)


def _intake_fields(intake: Intake | None) -> dict[str, object]:
    return {
        "kind": intake and intake.settings.kind,
        "queue": intake and intake.settings.queue,
        "reply_to": intake and intake.settings.reply_to,
        "url": None if intake is None or intake.provider.is_timed else intake.public_url,
        "missing": intake.missing() if intake else [],
    }


def _differing(one: Differing) -> dict[str, object]:
    return {
        "key": one.key,
        "times": one.times,
        "different": one.different,
        "first_at": rfc3339(one.first_at),
        "last_at": rfc3339(one.last_at),
    }


async def list_destinations(api: Api, _request: Request, principal: Principal) -> Response:
    """The destinations. A key that is bound to queues sees those they may use, without the load of all."""
    core = api.core
    pauses = await find_pauses(core.pool)
    bound = principal.queues is not None
    known = _usable(core, principal) if bound else await _names(core, "destination", pauses)
    names = sorted(known)
    health = await find_destinations(core.pool, names)
    load = {} if bound else await destination_load(core.pool, names)
    oldest = {} if bound else await oldest_pending_seconds(core.pool, names)
    items = [
        {
            "name": name,
            "configured": name in core.routes,
            "paused": pause_fields(pauses.get(("destination", name))),
            "policy": _policy(
                core.routes[name].settings if name in core.routes else None, _DESTINATION_FIELDS
            ),
            "breaker": _breaker(health.get(name)),
            "messages": load.get(name),
            "oldest_pending_seconds": oldest.get(name),
        }
        for name in names
    ]
    return _list(items, pauses)


async def _names(core: Core, kind: str, pauses: _Pauses) -> frozenset[str]:
    """What is configured, what rows name, and what is paused."""
    in_use = await names_in_use(core.pool)
    paused = {name for paused_kind, name in pauses if paused_kind == kind}
    return core.configured[kind] | in_use[kind] | paused


def _usable(core: Core, principal: Principal) -> set[str]:
    names: set[str] = set()
    for name in principal.queues or ():
        queue = core.settings.queues.get(name)
        if queue is not None:
            names |= set(core.routes if queue.destinations is None else queue.destinations)
    return names


def _policy(policy: object | None, fields: Iterable[str]) -> dict[str, object] | None:
    return None if policy is None else {name: getattr(policy, name) for name in fields}


def _breaker(view: DestinationView | None) -> dict[str, object]:
    return {
        "state": view.breaker if view else "closed",
        "opened_at": rfc3339(view.opened_at) if view and view.opened_at else None,
        "probe_at": rfc3339(view.probe_at) if view and view.probe_at else None,
        "reason": view.reason if view else None,
    }


def _list(items: Sequence[Mapping[str, object]], pauses: _Pauses) -> Response:
    everything = pause_fields(pauses.get(("all", EVERYTHING)))
    return json_answer({"items": items, "next_cursor": None, "everything_paused": everything})
