"""What a configuration says that works and is probably not meant."""

from collections.abc import Iterator, Mapping

from app.core import Intake, Route
from app.settings import Fault, Settings, dotted, resolve_secret

_EVERYTHING_BITS_MAX = 4


def warnings(
    settings: Settings, routes: Mapping[str, Route], intakes: Mapping[str, Intake]
) -> Iterator[Fault]:
    """Each thing to know of, as a path, a stable code and words. None of it stops the start."""
    if settings.database_url is None:
        yield Fault(
            "database_url", "database_missing", "not set: only `sinksweep dev` starts without"
        )
    if settings.database.allow_unsafe:
        said = "the service starts on a server that loses what it acknowledged"
        yield Fault("database.allow_unsafe", "unsafe_allowed", said)
    if not settings.destinations:
        yield Fault(
            "destinations", "destinations_missing", "there is none: no agent can say anything"
        )
    for network in settings.network.allow:
        if network.prefixlen <= _EVERYTHING_BITS_MAX:
            said = (
                "destinations may reach every private address, those of clouds' metadata included"
            )
            yield Fault("network.allow", "network_open", said)
    yield from _queues(settings)
    for name, route in routes.items():
        yield from _destination(name, route)
    yield from _sources(settings, intakes)


def _sources(settings: Settings, intakes: Mapping[str, Intake]) -> Iterator[Fault]:
    reached = [one for one in intakes.values() if not one.provider.is_timed]
    if reached and settings.server.public_url is None:
        said = "not set: the URLs to paste are those of this machine"
        yield Fault("server.public_url", "public_url_missing", said)
    for name, intake in intakes.items():
        for pointer in intake.missing():
            said = f"{pointer} leads to nothing, and its source is not ready without it"
            yield Fault(f"{dotted(['sources', name])}.secrets", "secret_missing", said)


def _queues(settings: Settings) -> Iterator[Fault]:
    used: set[str] = set()
    for name, queue in settings.queues.items():
        used.update(settings.destinations if queue.destinations is None else queue.destinations)
        if queue.destinations == ():
            path = f"{dotted(['queues', name])}.destinations"
            yield Fault(path, "queue_mute", "empty: its turns can say nothing")
    for name in sorted(settings.destinations.keys() - used):
        said = "no queue may use it"
        yield Fault(dotted(["destinations", name]), "destination_unused", said)


def _destination(name: str, route: Route) -> Iterator[Fault]:
    at = dotted(["destinations", name])
    if route.settings.kind == "loopback":
        said = "a loopback: what is sent to it is shown under /v1/loopback and reaches nobody"
        yield Fault(at, "loopback", said)
    pointers = route.channel.secrets(route.config)
    if not pointers and "secrets" in route.channel.Config.model_fields:
        yield Fault(f"{at}.secrets", "unsigned", "without secrets it is sent to unsigned")
    for pointer in pointers:
        if resolve_secret(pointer) is None:
            said = f"{pointer} leads to nothing, and nothing is sent without it"
            yield Fault(f"{at}.secrets", "secret_missing", said)
    if str(getattr(route.config, "url", "")).startswith("http://"):
        yield Fault(
            f"{at}.url", "plain_http", "what is sent to it can be read on the way: use https"
        )
