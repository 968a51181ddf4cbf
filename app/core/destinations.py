"""Destinations as they are sent to: what a configuration says of each, checked by its channel, with its policy."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from app.channels import AnyChannel, Draft, Outgoing, Wire, discover
from app.domain.breaker import BreakerPolicy
from app.domain.model import DeliveryPolicy, Taken
from app.domain.outcome import Outcome
from app.settings import (
    Destination,
    Fault,
    Settings,
    SettingsError,
    dotted,
    explain,
    resolve_secret,
    silences,
    unknown_name,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Route:
    """One destination, ready to be sent to."""

    name: str
    settings: Destination
    channel: AnyChannel
    config: BaseModel

    @property
    def policy(self) -> DeliveryPolicy:
        """When to try again here, and when to give up."""
        return DeliveryPolicy(
            attempts_max=self.settings.attempts_max,
            age_seconds_max=self.settings.age_seconds_max,
            backoff_seconds=self.settings.backoff_seconds,
            backoff_seconds_max=self.settings.backoff_seconds_max,
            on_unknown=self.settings.on_unknown,
            breaker=BreakerPolicy(
                failures=self.settings.breaker_failures,
                seconds=self.settings.breaker_seconds,
                seconds_max=self.settings.breaker_seconds_max,
            ),
        )

    def check(self, draft: Draft) -> None:
        """Refuse a draft that could never be sent; raises `InvalidContent`."""
        self.channel.check(draft, config=self.config)

    async def send(self, taken: Taken, *, wire: Wire) -> Outcome:
        """Make one attempt. Secrets are read now, so that a rotated one needs no restart."""
        message = Outgoing(
            id=taken.key,
            key=taken.key,
            destination=taken.destination,
            queue=taken.queue,
            conversation=taken.conversation,
            recipient=taken.recipient,
            headers=taken.headers,
            content_type=taken.content_type,
            body=taken.body,
            sealed_at=taken.sealed_at,
            expires_at=taken.expires_at,
            attempt=taken.attempt,
            attempted_at=taken.attempted_at,
        )
        return await self.channel.send(
            message,
            config=self.config,
            secrets=[resolve_secret(pointer) for pointer in self.channel.secrets(self.config)],
            wire=wire,
            timeout_seconds=self.settings.timeout_seconds,
        )


def channel_faults(settings: Settings) -> list[Fault]:
    """What the channels find wrong with their own part of the configuration."""
    return _routes(settings)[1]


def build_routes(settings: Settings) -> dict[str, Route]:
    """Each destination with its channel's own configuration checked; raises `SettingsError`."""
    routes, faults = _routes(settings)
    if faults:
        raise SettingsError(*faults)
    return routes


def _routes(settings: Settings) -> tuple[dict[str, Route], list[Fault]]:
    channels = discover()
    routes: dict[str, Route] = {}
    faults: list[Fault] = []
    for name, destination in settings.destinations.items():
        channel = channels.get(destination.kind)
        if channel is None:
            path = dotted(["destinations", name, "kind"])
            faults.append(unknown_name(path, name=destination.kind, known=channels))
            continue
        try:
            config = channel.Config.model_validate(dict(destination.options))
        except ValidationError as error:
            own = Destination.model_fields.keys() - {"options"}
            at = ("destinations", name)
            faults += explain(error, model=channel.Config, at=at, also_known=own)
            continue
        routes[name] = Route(name, destination, channel, config)
    return routes, faults


def warn_of_secrets(routes: Mapping[str, Route]) -> None:
    """Neither stops the start: a secret may be brought later, and a receiver may need none."""
    for name, route in routes.items():
        pointers = route.channel.secrets(route.config)
        if not pointers and "secrets" in route.channel.Config.model_fields:
            log.warning("a destination is sent to unsigned", extra={"destination": name})
        for pointer in pointers:
            if resolve_secret(pointer) is None:
                told = {"destination": name, "pointer": pointer}
                log.warning("a secret is not there, and nothing is sent without it", extra=told)


def warn_of_silence(settings: Settings) -> None:
    """What is held already must be served, whether anybody hears of it or not."""
    for fault in silences(settings):
        log.warning("%s", fault)
