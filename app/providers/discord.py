"""Kind `discord`: interactions of one app, which are answered later, and its webhook events.

An interaction is told at once that its answer comes, which holds for a quarter of an hour. A PING, and a signature that
is wrong on purpose, are how Discord looks whether anybody verifies.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import Field

from app.domain.authenticity import check_time, read_seconds
from app.domain.json_view import (
    Json,
    at,
    list_at,
    name_at,
    object_at,
    read_object,
    text_at,
    time_at,
)
from app.domain.public_keys import check_ed25519, from_hex
from app.domain.webhook import (
    Attachment,
    Batch,
    Capability,
    Item,
    Keys,
    Refused,
    Reply,
    Request,
    Result,
    Secrets,
    View,
    body_key,
)
from app.providers import Options, Provider, Sheet, Signed

_JSON = "application/json"
_PONG = Reply(200, b'{"type":1}', _JSON)
_LATER = Reply(200, b'{"type":5}', _JSON)
_NO_CHOICES = Reply(200, b'{"type":8,"data":{"choices":[]}}', _JSON)
_NOTED = Reply(204, b"", _JSON)
_HEADERS = ("x-signature-ed25519", "x-signature-timestamp")
_TOKEN_LIFE = timedelta(minutes=15)
# The first moment that an id can name, in milliseconds, and where it stands in one.
_EPOCH = 1_420_070_400_000
_TIME_SHIFT = 22
_ID_CHARACTERS_MAX = 20

PING, COMMAND, COMPONENT, AUTOCOMPLETE, MODAL = range(1, 6)
_EVENTS = {COMMAND: "command", COMPONENT: "component", MODAL: "modal"}

PublicKey = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")]


class DiscordConfig(Options):
    """The app's public keys, in hex; and how old a signature may be, where that is to be bounded."""

    public_keys: Annotated[tuple[PublicKey, ...], Field(min_length=1, max_length=8)]
    tolerance_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = None


class Discord(Provider[DiscordConfig]):
    """One Discord app."""

    kind = "discord"
    Config = DiscordConfig
    signed = Signed(headers=_HEADERS)
    secrets_min = 0
    has_echoes = True
    sheet = Sheet(
        title="Discord (interactions, webhook events)",
        signature="Ed25519 over time and body, with the app's `public_keys`",
        key="`id` of an interaction; the hash of an event",
        conversation="server and channel; in direct messages channel and user",
        setup="General Information, Interactions Endpoint URL, and Webhooks, Endpoint",
    )

    def covers(self, config: DiscordConfig) -> Signed:
        """The time counts where it is bounded."""
        return Signed(time=config.tolerance_seconds is not None, headers=_HEADERS)

    def receive(
        self,
        request: Request,
        *,
        config: DiscordConfig,
        secrets: Secrets,  # noqa: ARG002
        keys: Keys | None,  # noqa: ARG002
        now: datetime,
    ) -> Batch | Reply:
        """Verify, and tell interactions from events."""
        signature, time = (request.header(name) for name in _HEADERS)
        check_ed25519(
            [from_hex(signature)],
            time.encode("latin-1") + request.body,
            keys=[from_hex(key) for key in config.public_keys],
        )
        if config.tolerance_seconds is not None:
            check_time(read_seconds(time), now, tolerance_seconds=config.tolerance_seconds)
        body = read_object(request.body)
        type_ = at(body, "type")
        if isinstance(at(body, "event"), dict):
            return Batch((_event(body, request.body),), reply=_NOTED)
        if isinstance(type_, bool) or type_ not in (0, PING, AUTOCOMPLETE, *_EVENTS):
            raise Refused(Result.MALFORMED, "type_unknown")
        if type_ == 0:
            return _NOTED
        if type_ == PING:
            return _PONG
        if type_ == AUTOCOMPLETE:
            return Batch((), reply=_NO_CHOICES, ignored={"autocomplete": 1})
        if not name_at(body, "id"):
            raise Refused(Result.MALFORMED, "id_missing")
        return Batch((_interaction(body, int(type_), request.body, now),), reply=_LATER)


def _interaction(body: Json, type_: int, raw: bytes, now: datetime) -> Item:
    id_, token = name_at(body, "id"), text_at(body, "token")
    user = name_at(body, "member", "user", "id") or name_at(body, "user", "id")
    guild = name_at(body, "guild_id")
    channel = name_at(body, "channel", "id") or name_at(body, "channel_id")
    place = (guild, channel) if guild else (guild, channel, user)
    words = {COMMAND: _command, COMPONENT: _component, MODAL: _modal}[type_]
    facts = {"application_id": name_at(body, "application_id")}
    return Item(
        keys=(id_,),
        body=raw,
        event=_EVENTS[type_],
        conversation=place if channel and place[-1] else (),
        view=View(text=words(at(body, "data")), sender=user, attachments=_attachments(body)),
        reply=Capability(secrets={"token": token}, facts=facts, expires_at=now + _TOKEN_LIFE)
        if token
        else None,
        dated=_made(id_),
    )


def _made(id_: str) -> datetime | None:
    """When an id was given out, which it tells itself."""
    if not (id_.isascii() and id_.isdigit() and len(id_) <= _ID_CHARACTERS_MAX):
        return None
    return datetime.fromtimestamp(((int(id_) >> _TIME_SHIFT) + _EPOCH) / 1000, UTC)


def _command(data: Json) -> str:
    """What somebody typed, or the message that a command was chosen for."""
    target = name_at(data, "target_id")
    if target:
        return text_at(data, "resolved", "messages", target, "content") or text_at(data, "name")
    return " ".join((f"/{text_at(data, 'name')}", *_options(data)))


def _options(above: Json) -> Iterator[str]:
    for option in list_at(above, "options"):
        name, value = text_at(option, "name"), at(option, "value")
        if value is None:
            # A command below a command.
            yield from (name, *_options(option))
        else:
            yield f"{name}:{name_at(option, 'value') or str(value).lower()}"


def _component(data: Json) -> str:
    values = [name_at(data, "values", n) for n in range(len(list_at(data, "values")))]
    return " ".join(values) or text_at(data, "custom_id")


def _modal(data: Json) -> str:
    """The fields, a line each, in rows or behind labels."""
    fields = [
        field
        for row in list_at(data, "components")
        for field in (*list_at(row, "components"), at(row, "component"))
    ]
    return "\n".join(text for field in fields if (text := text_at(field, "value")))


def _attachments(body: Json) -> tuple[Attachment, ...]:
    return tuple(
        Attachment(
            kind="file",
            id=name_at(one, "id"),
            url=text_at(one, "url"),
            name=text_at(one, "filename"),
            content_type=text_at(one, "content_type"),
        )
        for one in object_at(body, "data", "resolved", "attachments").values()
        if text_at(one, "url")
    )


def _event(body: Json, raw: bytes) -> Item:
    """An event has no id, and the same bytes when it comes again."""
    event = at(body, "event")
    about = at(event, "data")
    channel = name_at(about, "channel_id")
    author = name_at(about, "author", "id")
    moment = text_at(event, "timestamp")
    return Item(
        keys=(body_key(raw),),
        body=raw,
        event=text_at(event, "type") or "event",
        conversation=(name_at(about, "guild_id"), channel) if channel else (),
        view=View(text=text_at(about, "content"), sender=author or name_at(about, "user", "id")),
        # Told without a zone, which is UTC.
        dated=time_at([moment], 0) or time_at([f"{moment}+00:00"], 0),
        is_echo=author != "" and author == name_at(body, "application_id"),
    )


provider = Discord()
