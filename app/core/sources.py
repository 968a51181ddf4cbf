"""Sources as they are received from: what a configuration says of each, checked by its kind, with what it keeps out."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from urllib.parse import quote

from pydantic import BaseModel

from app.core.kinds import read_kind
from app.domain.webhook import Batch, Item, Keys, Refused, Reply, Request, Result, Secrets, Trial
from app.providers import AnyProvider, discover
from app.settings import (
    Fault,
    Settings,
    SettingsError,
    Source,
    dotted,
    resolve_secret,
)

log = logging.getLogger(__name__)

SOURCES_PATH = "/v1/sources/"
# Why an item was left out, where this installation wants it so.
FILTERED = "filtered"
ECHO = "echo"
TOO_OLD = "too_old"


@dataclass(frozen=True)
class Intake:
    """One source, ready to receive.

    `public_url` is what is pasted at the provider. What is dated longer ago than `key_seconds` may have come before and
    been forgotten.
    """

    name: str
    settings: Source
    provider: AnyProvider
    config: BaseModel
    public_url: str
    key_seconds: float

    @property
    def body_bytes_max(self) -> int:
        """How large a request may be."""
        return self.settings.body_bytes_max or self.provider.body_bytes_max

    @cached_property
    def pointers(self) -> Mapping[str, tuple[str, ...]]:
        """What it needs resolved: the pointers of each field that has any, `secrets` among them."""
        named = {name: getattr(self.config, name) for name in self.provider.secret_fields}
        told = {"secrets": self.settings.secrets, **named}
        return {
            name: (value,) if isinstance(value, str) else tuple(value)
            for name, value in told.items()
            if value
        }

    def missing(self) -> list[str]:
        """The pointers that lead to nothing at this moment."""
        return [
            pointer
            for pointers in self.pointers.values()
            for pointer in pointers
            if resolve_secret(pointer) is None
        ]

    def read(self, request: Request, *, keys: Keys | None, now: datetime) -> Batch | Reply:
        """Verify a request and read it, without what is left out here; raises `Refused`.

        Nobody is told that his signature is wrong where a secret is not there that it may have been made with.
        """
        secrets, is_whole = self._secrets()
        if len(secrets.active) < min(self.provider.secrets_min, 1):
            raise Refused(Result.NOT_READY, "secret_missing")
        if self.provider.has_fetched_keys and keys is None:
            raise Refused(Result.NOT_READY, "keys_missing")
        try:
            read = self.provider.receive(
                request, config=self.config, secrets=secrets, keys=keys, now=now
            )
        except Refused as refused:
            if refused.result is Result.BAD_SIGNATURE and not is_whole:
                raise Refused(Result.NOT_READY, "secret_missing") from None
            raise
        except Exception as error:
            # A mistake of ours: what came is verified or not, and comes again until it is mended.
            log.exception("a request could not be read", extra={"source": self.name})
            raise Refused(Result.NOT_READY, "failed") from error
        return self.kept(read, now=now) if isinstance(read, Batch) else read

    def trial(self, *, now: datetime) -> Trial | None:
        """What it can be tried with, so that nothing is kept; None where nothing can be signed, or not here."""
        secrets, _ = self._secrets()
        try:
            return self.provider.trial(config=self.config, secrets=secrets, now=now)
        except Refused:
            # Without its secret.
            return None

    def _secrets(self) -> tuple[Secrets, bool]:
        """What its pointers hold at this moment, and whether each of them holds something."""
        found = {
            name: [resolve_secret(pointer) for pointer in pointers]
            for name, pointers in self.pointers.items()
        }
        held = {name: tuple(one for one in some if one) for name, some in found.items()}
        is_whole = all(None not in some for some in found.values())
        return Secrets(held.get("secrets", ()), held), is_whole

    def kept(self, batch: Batch, *, now: datetime) -> Batch:
        """A batch without our echoes, what the filter drops, and what is too old; raises `Refused` where all is."""
        ignored = Counter(batch.ignored)
        items: list[Item] = []
        for item in batch.items:
            why = self._left_out(item, now)
            if why is None:
                items.append(item)
            else:
                ignored[why] += 1
        if not items and batch.items and ignored[TOO_OLD] == len(batch.items):
            raise Refused(Result.TOO_OLD, "body_too_old")
        return Batch(tuple(items), batch.reply, batch.facts, ignored)

    def _left_out(self, item: Item, now: datetime) -> str | None:
        if item.is_echo and self.settings.echoes == "ignore":
            return ECHO
        keep, drop = self.settings.filter.keep, self.settings.filter.drop
        if _matches(item.event, drop) or not (keep is None or _matches(item.event, keep)):
            return FILTERED
        if item.dated is not None and item.dated < now - timedelta(seconds=self.key_seconds):
            return TOO_OLD
        return None


@dataclass(slots=True)
class FetchedKeys:
    """The public keys of the sources that need some, as they were fetched last, and who wants them anew."""

    by_source: dict[str, Keys] = field(default_factory=dict)
    wanted: set[str] = field(default_factory=set)


def _matches(event: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(event, pattern) for pattern in patterns)


def source_faults(settings: Settings) -> list[Fault]:
    """What the providers find wrong with their own part of the configuration."""
    return _intakes(settings)[1]


def build_intakes(settings: Settings) -> dict[str, Intake]:
    """Each source with its kind's own configuration checked; raises `SettingsError`."""
    intakes, faults = _intakes(settings)
    if faults:
        raise SettingsError(*faults)
    return intakes


def public_url(settings: Settings, source: str) -> str:
    """Where a provider reaches a source: below `server.public_url`, or where this process listens."""
    base = settings.server.public_url
    if base is None:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        base = f"http://{host}:{settings.port}"
    return f"{base}{SOURCES_PATH}{quote(source, safe='')}"


def _intakes(settings: Settings) -> tuple[dict[str, Intake], list[Fault]]:
    providers = discover() if settings.sources else {}
    intakes: dict[str, Intake] = {}
    faults: list[Fault] = []
    for name, source in settings.sources.items():
        try:
            provider, config = read_kind(providers, source, at=("sources", name))
        except SettingsError as error:
            faults += error.faults
            continue
        intake = Intake(
            name=name,
            settings=source,
            provider=provider,
            config=config,
            public_url=public_url(settings, name),
            key_seconds=settings.keys.idempotency_seconds,
        )
        faults += _faults_of(intake, settings)
        intakes[name] = intake
    return intakes, faults


def _faults_of(intake: Intake, settings: Settings) -> list[Fault]:
    """What only both together can say: the policy of a source, and its kind."""
    at = dotted(["sources", intake.name])
    provider, secrets = intake.provider, intake.settings.secrets
    faults: list[Fault] = []
    if len(secrets) < provider.secrets_min:
        detail = "this kind verifies with a secret, and none is given"
        faults.append(Fault(f"{at}.secrets", "missing", detail))
    if secrets and not provider.secrets_min:
        detail = "this kind has no secrets"
        if provider.secret_fields:
            detail += f": a pointer to what its URL holds belongs in {provider.secret_fields[0]}"
        faults.append(Fault(f"{at}.secrets", "contradiction", detail))
    if provider.covers(intake.config).url and settings.server.public_url is None:
        detail = f"the source {intake.name} signs its URL: say where providers reach this"
        faults.append(Fault("server.public_url", "missing", detail))
    return faults


def warn_of_source_secrets(intakes: Mapping[str, Intake]) -> None:
    """A secret may be brought later: until then the source answers that it is not ready."""
    for name, intake in intakes.items():
        for pointer in intake.missing():
            told = {"source": name, "pointer": pointer}
            log.warning("a secret is not there, and its source is not ready", extra=told)
