"""Cron: the clock brings an inbound at each scheduled time, once over all replicas, since that time is its key.

It is asked by the database's clock, and takes no request.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from app.domain.schedule import is_expression, steps, times, zone_of
from app.domain.webhook import Batch, Item, Keys, Refused, Reply, Request, Result, Secrets, View
from app.providers import Options, Provider, Sheet, Signed

SCHEDULES_MAX: Final = 20
PAYLOAD_BYTES_MAX: Final = 1 << 16
EVENT: Final = "due"


def _expression(text: str) -> str:
    if not is_expression(text):
        words = 'a cron expression of five fields that fires at all is needed, as in "30 9 * * 1-5"'
        raise PydanticCustomError("schedule", words)
    return text


def _zone(name: str) -> str:
    try:
        zone_of(name)
    except (LookupError, ValueError, OSError):
        words = 'the name of a time zone that this machine knows is needed, as in "Europe/Paris"'
        raise PydanticCustomError("time_zone", words) from None
    return name


def _several(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _as_json(value: object) -> str:
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        words = "a payload is what JSON can hold: text, numbers, true, false, lists and tables"
        raise PydanticCustomError("payload", words) from None
    if len(text) > PAYLOAD_BYTES_MAX:
        raise PydanticCustomError("payload", "a payload has 65,536 bytes at most")
    return text


class CronConfig(Options):
    """When, and with what. `payload` is kept as JSON."""

    schedule: Annotated[
        tuple[Annotated[str, AfterValidator(_expression)], ...],
        BeforeValidator(_several),
        Field(max_length=SCHEDULES_MAX),
    ] = ()
    time_zone: Annotated[str, AfterValidator(_zone)] = "UTC"
    every_seconds: Annotated[int | None, Field(strict=True, ge=10, le=31_536_000)] = None
    catch_up_max: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
    payload: Annotated[str, BeforeValidator(_as_json)] = "null"
    conversation: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=255)], ...],
        BeforeValidator(_several),
        Field(max_length=8),
    ] = ()

    @model_validator(mode="after")
    def _either(self) -> "CronConfig":
        if bool(self.schedule) == (self.every_seconds is not None):
            words = "either schedule or every_seconds is needed, and not both"
            raise PydanticCustomError("schedule", words)
        return self


class Cron(Provider[CronConfig]):
    """Scheduled times, each an inbound of its own."""

    kind = "cron"
    Config = CronConfig
    sheet = Sheet(
        title="The clock",
        signature="nothing: it takes no request",
        key="the scheduled time in UTC",
        conversation="`conversation`, or one of its own for each time",
        setup="Nothing to paste: say `schedule` and `time_zone`, or `every_seconds`",
    )
    signed = Signed(body=False)
    methods = frozenset()
    secrets_min = 0
    is_timed = True

    def receive(
        self,
        request: Request,  # noqa: ARG002 - there is none that it takes
        *,
        config: CronConfig,  # noqa: ARG002
        secrets: Secrets,  # noqa: ARG002
        keys: Keys | None,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> Batch | Reply:
        """Take nothing."""
        raise Refused(Result.WRONG_METHOD, "asked_by_the_clock")

    def due(
        self, *, config: CronConfig, after: datetime, now: datetime, items_max: int
    ) -> Sequence[Item]:
        """The last scheduled times behind `after` and up to `now`; two schedules that meet are one item."""
        if config.every_seconds is not None:
            found = steps(seconds=config.every_seconds, after=after, now=now, most=items_max)
        else:
            zone = zone_of(config.time_zone)
            several = (
                times(one, zone=zone, after=after, now=now, most=items_max)
                for one in config.schedule
            )
            found = sorted({time for some in several for time in some})[-items_max:]
        return [_item(config, time) for time in found]

    def catch_up_max(self, config: CronConfig) -> int:
        """As it is configured."""
        return config.catch_up_max


def _item(config: CronConfig, time: datetime) -> Item:
    spelled = time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = f'{{"scheduled_at":"{spelled}","payload":{config.payload}}}'
    payload = json.loads(config.payload)
    return Item(
        keys=(spelled,),
        body=body.encode(),
        event=EVENT,
        conversation=config.conversation,
        view=View(text=payload if isinstance(payload, str) else ""),
        dated=time,
    )


provider = Cron()
