"""Destinations as they are sent to: what a configuration says of each, checked by its channel, with its policy."""

import asyncio
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final, TypeVar

from pydantic import BaseModel

from app.channels import (
    Address,
    AnyChannel,
    Draft,
    Limits,
    Outgoing,
    Probed,
    Reply,
    Wire,
    answerable,
    discover,
)
from app.core.kinds import read_kind
from app.domain.breaker import BreakerPolicy
from app.domain.errors import InvalidContent
from app.domain.message import read_capability, read_parts
from app.domain.model import DeliveryPolicy, Taken
from app.domain.outcome import Delivered, Found, Outcome, Rejected, Unknown
from app.domain.record import record
from app.settings import (
    Destination,
    Fault,
    Settings,
    SettingsError,
    dotted,
    resolve_secret,
)
from app.wire.excerpt import masked, secret_texts

log = logging.getLogger(__name__)

KnownT = TypeVar("KnownT")
HIDDEN_CHARACTERS_MIN: Final = 8


@record(frozen=True, slots=True)
class _Held:
    """What the pointers of a destination hold, and how that may be spelled."""

    secrets: tuple[bytes | None, ...]
    texts: tuple[str, ...]


class _Reader:
    """Reads pointers once for all that begins in one moment of the loop's clock, which whole batches do."""

    __slots__ = ("_at", "_held")

    def __init__(self) -> None:
        self._at = -math.inf
        self._held = _Held((), ())

    def read(self, pointers: Sequence[str]) -> _Held:
        """What they hold now."""
        now = asyncio.get_running_loop().time()
        if self._at != now:
            secrets = tuple(resolve_secret(pointer) for pointer in pointers)
            texts = secret_texts(one for one in secrets if one is not None)
            self._at, self._held = now, _Held(secrets, tuple(texts))
        return self._held


@dataclass(frozen=True, slots=True)
class Route:
    """One destination, ready to be sent to. What its settings leave open is what its channel says of its provider."""

    name: str
    settings: Destination
    channel: AnyChannel
    config: BaseModel
    # Of this one alone: another that is made from it may have other pointers.
    _reader: _Reader = field(default_factory=_Reader, init=False, repr=False, compare=False)

    @property
    def policy(self) -> DeliveryPolicy:
        """When to try again here, and when to give up."""
        return DeliveryPolicy(
            attempts_max=self.settings.attempts_max,
            age_seconds_max=self.settings.age_seconds_max,
            backoff_seconds=self.settings.backoff_seconds,
            backoff_seconds_max=self.settings.backoff_seconds_max,
            on_unknown=self.settings.on_unknown,
            lookup_after_seconds=self.channel.lookup_after_seconds or 0.0,
            breaker=BreakerPolicy(
                failures=self.settings.breaker_failures,
                seconds=self.settings.breaker_seconds,
                seconds_max=self.settings.breaker_seconds_max,
            ),
        )

    @property
    def looks_up(self) -> bool:
        """Whether an attempt that may have arrived is looked for before another one is made."""
        return self.settings.on_unknown == "lookup"

    @property
    def key_ttl_seconds(self) -> float | None:
        """After what time an attempt that may have arrived is not repeated: what is looked for may be, at any time."""
        return None if self.looks_up else self.settings.key_ttl_seconds

    @property
    def attempt_seconds(self) -> float:
        """How long one attempt may take: to ask what became of the last one, too, where that is done."""
        return self.settings.timeout_seconds * (2 if self.looks_up else 1)

    def check(self, draft: Draft, *, reply: Reply | None) -> Address:
        """Where a draft goes; raises `InvalidContent` for one that could never be sent."""
        reply = answerable(self.channel, reply)
        return self.channel.check(draft, reply=reply, config=self.config)

    async def send(self, taken: Taken, *, wire: Wire) -> Outcome:
        """Make one attempt. Secrets are read now, so that a rotated one needs no restart."""
        message, held = _outgoing(taken), self._hold()
        wire = self._wire(wire, held, message)
        try:
            outcome = await self.channel.send(
                message, config=self.config, secrets=held.secrets, wire=wire
            )
            return _shown(outcome, wire)
        except InvalidContent as invalid:
            # It was sealed for a destination of another kind, or of another configuration.
            return Rejected(f"not_for_this_kind: {invalid.problems[0].code}")

    async def lookup(self, taken: Taken, *, wire: Wire) -> Found:
        """Ask what became of the attempts before this one."""
        message, held = _outgoing(taken), self._hold()
        wire = self._wire(wire, held, message)
        try:
            found = await self.channel.lookup(
                message, config=self.config, secrets=held.secrets, wire=wire
            )
            return _shown(found, wire)
        except InvalidContent:
            return Unknown("lookup_impossible", ours=True)

    async def probe(self, *, wire: Wire) -> Probed:
        """Say whether it could be sent to, and send nothing."""
        held = self._hold()
        for pointer, secret in zip(self.channel.secrets(self.config), held.secrets, strict=True):
            if secret is None:
                words = f"the pointer {pointer} leads to nothing: nothing is sent without it"
                return Probed(good=False, words=words)
        wire = self._wire(wire, held)
        probed = await self.channel.probe(config=self.config, secrets=held.secrets, wire=wire)
        return replace(probed, words=masked(probed.words, hidden=wire.hidden))

    def _hold(self) -> _Held:
        return self._reader.read(self.channel.secrets(self.config))

    def _wire(self, wire: Wire, held: _Held, message: Outgoing | None = None) -> Wire:
        """The wire of one call, which shows nothing of what it was given to send with."""
        hidden = held.texts
        if message is not None and message.reply:
            texts = (value for value in message.reply.values() if isinstance(value, str))
            hidden = (*hidden, *texts)
        return wire.of_call(
            until=time.monotonic() + self.settings.timeout_seconds,
            group=self.name,
            now=None if message is None else message.attempted_at,
            hidden=hidden,
        )


def _shown(found: KnownT, wire: Wire) -> KnownT:
    """With a receipt that shows no secret, whatever the provider gives for its own id."""
    if not isinstance(found, Delivered) or found.receipt is None:
        return found
    # Shorter ones, such as the subject of a mail, are no secrets, and may well stand in a receipt of ours.
    hidden = [text for text in wire.hidden if len(text) >= HIDDEN_CHARACTERS_MIN]
    return replace(found, receipt=masked(found.receipt, hidden=hidden))


def _outgoing(taken: Taken) -> Outgoing:
    return Outgoing(
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
        first_attempted_at=taken.first_attempted_at or taken.attempted_at,
        address={} if taken.address is None else read_parts(taken.address),
        reply=None if taken.reply is None else read_capability(taken.reply),
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
        try:
            channel, config = read_kind(channels, destination, at=("destinations", name))
        except SettingsError as error:
            faults += error.faults
            continue
        if destination.on_unknown == "lookup" and channel.lookup_after_seconds is None:
            path, can = dotted(["destinations", name, "on_unknown"]), _that_look_up(channels)
            detail = f"nobody can be asked what became of a message; known here: {can}"
            faults.append(Fault(path, "contradiction", detail))
        routes[name] = Route(name, _with_defaults(destination, channel.limits), channel, config)
    return routes, faults


def _that_look_up(channels: Mapping[str, AnyChannel]) -> str:
    kinds = (kind for kind, one in channels.items() if one.lookup_after_seconds is not None)
    return ", ".join(sorted(kinds)) or "none"


def _with_defaults(destination: Destination, limits: Limits) -> Destination:
    """What nobody wrote is what the provider takes."""
    known = {name: value for name, value in asdict(limits).items() if value is not None}
    given = destination.model_fields_set
    return destination.model_copy(
        update={name: value for name, value in known.items() if name not in given}
    )


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
