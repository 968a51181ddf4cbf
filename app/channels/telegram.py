"""Kind `telegram`: a bot writes into the chat, and the topic of it, that is answered.

Telegram knows no key and lets no bot read what it has said: an attempt that nobody answered may have been heard, and a
repeat of it may be heard twice. `on_unknown` decides. The bot's token stands in the path of every request.
"""

import re
from typing import ClassVar, Final

from pydantic import field_validator

from app.channels import (
    Address,
    Draft,
    Facts,
    Limits,
    NoLookup,
    Options,
    Outgoing,
    Probed,
    Reply,
    Secrets,
    Wire,
    is_id,
    read_draft,
    unreached,
)
from app.domain.content import read_content
from app.domain.errors import InvalidContent, Problem
from app.domain.outcome import Delivered, Outcome, Rejected, RetryLater
from app.wire.asking import JSON_HEADERS, Heard, json_body, token_of
from app.wire.json_answer import inside, seconds_inside, text_inside
from app.wire.judging import by_status, throttled, unauthorized
from app.wire.pointer import BaseUrl, Pointer

UNITS_MAX: Final = 4096
# With marks in it, which are not counted.
MARKED_MAX: Final = 16_384

_MESSAGE: Final = frozenset(
    {"text", "parse_mode", "entities", "link_preview_options", "disable_notification"}
    | {"protect_content", "reply_markup", "reply_parameters", "message_effect_id"}
)
_PLACE: Final = re.compile(r"(-?[0-9]{1,20}|@[A-Za-z][A-Za-z0-9_]{3,31})(?:/([0-9]{1,20}))?")
_NUMBER: Final = re.compile(r"-?[0-9]{1,20}")
_TOKEN: Final = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{1,200}")
_PARTS: Final = ("chat_id", "message_thread_id", "business_connection_id")


class TelegramConfig(Options):
    """`to` is the id of a chat, or `@channel`, and the id of a topic of it behind a slash."""

    token: Pointer
    to: str | None = None
    api_url: BaseUrl = "https://api.telegram.org"

    @field_validator("to")
    @classmethod
    def _is_a_place(cls, value: str | None) -> str | None:
        if value is not None and _PLACE.fullmatch(value) is None:
            raise ValueError("to is the id of a chat or @channel, as in -1001234 or @acme/17")
        return value


class Telegram(NoLookup):
    """What a bot says."""

    kind: ClassVar = "telegram"
    Config = TelegramConfig
    limits: ClassVar = Limits(rate_per_second=25, pace_seconds=1)
    answers: ClassVar = frozenset({"telegram"})
    facts: ClassVar = Facts(
        key="none: a repeat is heard twice",
        lookup="no: a bot cannot read what it has said",
        receipt="chat and `message_id`",
    )

    def secrets(self, config: TelegramConfig) -> tuple[str, ...]:
        """The bot's token."""
        return (config.token,)

    def check(self, draft: Draft, *, reply: Reply | None, config: TelegramConfig) -> Address:
        """A chat, its topic, and the connection of a business; raises `InvalidContent`."""
        parts = _place(draft, reply, config)
        reading = read_draft(draft)
        reading.only(_MESSAGE)
        text = reading.text("text", most=MARKED_MAX, required=True)
        marked = reading.content.get("parse_mode") is not None
        if text and not marked and len(text.encode("utf-16-le")) > 2 * UNITS_MAX:
            reading.refuse("text", "text_too_long", f"at most {UNITS_MAX} UTF-16 units")
        reading.check()
        return Address(parts)

    async def send(
        self, message: Outgoing, *, config: TelegramConfig, secrets: Secrets, wire: Wire
    ) -> Outcome:
        """Send it; to where a group has moved, if Telegram says so."""
        token = _token(secrets)
        if not isinstance(token, str):
            return token
        message.at("chat_id")
        said = read_content(message.content_type, message.body) | _numbers(message.address)
        url = f"{config.api_url}/bot{token}/sendMessage"
        heard = await wire.ask("POST", url, headers=JSON_HEADERS, body=json_body(said))
        if isinstance(heard, Heard):
            moved = text_inside(heard.said, "parameters", "migrate_to_chat_id")
            if heard.status == 400 and moved is not None and _PLACE.fullmatch(moved):  # noqa: PLR2004
                said |= _numbers({"chat_id": moved})
                heard = await wire.ask("POST", url, headers=JSON_HEADERS, body=json_body(said))
        return _judged(heard, wire) if isinstance(heard, Heard) else heard

    async def probe(self, *, config: TelegramConfig, secrets: Secrets, wire: Wire) -> Probed:
        """Ask Telegram which bot it is."""
        token = _token(secrets)
        if not isinstance(token, str):
            return Probed(good=False, words="its token is not one of Telegram's: 123456:ABC...")
        heard = await wire.ask("GET", f"{config.api_url}/bot{token}/getMe")
        if not isinstance(heard, Heard):
            return unreached(heard)
        if inside(heard.said, "ok") is True:
            name = text_inside(heard.said, "result", "username") or "a bot"
            return Probed(good=True, words=f"Telegram knows its token: @{name}")
        words = f"Telegram does not take its token ({heard.status}): ask @BotFather for it"
        return Probed(good=False, words=words)


def _token(secrets: Secrets) -> str | RetryLater:
    token = token_of(secrets[0])
    if isinstance(token, str) and _TOKEN.fullmatch(token) is None:
        # It becomes a part of the path, where nothing else may be said.
        return RetryLater("secret_invalid")
    return token


def _place(draft: Draft, reply: Reply | None, config: TelegramConfig) -> dict[str, str]:
    named = draft.recipient or config.to
    if named is not None:
        found = _PLACE.fullmatch(named)
        if found is None:
            raise InvalidContent(Problem("/to", "to_invalid", "the id of a chat, or @channel"))
        return {name: one for name, one in zip(_PARTS, found.groups(), strict=False) if one}
    parts = () if reply is None else reply.parts
    place = {name: part for name, part in zip(_PARTS, parts, strict=False) if part}
    if "chat_id" not in place or not all(map(is_id, place.values())):
        raise InvalidContent(Problem("/to", "to_missing"))
    return place


def _numbers(address: object) -> dict[str, object]:
    """The parts of an address as Telegram wants them: ids are numbers."""
    found: dict[str, object] = {}
    for name in _PARTS:
        part = text_inside(address, name)
        if part is not None:
            is_number = name != "business_connection_id" and _NUMBER.fullmatch(part) is not None
            found[name] = int(part) if is_number else part
    return found


def _judged(heard: Heard, wire: Wire) -> Outcome:
    answer = heard.answer
    if inside(heard.said, "ok") is True and heard.status == 200:  # noqa: PLR2004
        chat = text_inside(heard.said, "result", "chat", "id")
        number = text_inside(heard.said, "result", "message_id")
        return Delivered(f"{chat}:{number}" if chat and number else number, answer)
    if heard.said is None:
        return by_status(heard.exchange, answer, now=wire.now)
    # What the object says counts, whatever the status around it.
    told = (
        text_inside(heard.said, "error_code", most=3) if inside(heard.said, "ok") is False else None
    )
    match int(told) if told and _NUMBER.fullmatch(told) else heard.status:
        case 429:
            # It seldom says whether the chat or the bot is too fast: whoever else is hears so, too.
            asked = seconds_inside(heard.said, "parameters", "retry_after")
            after = heard.after_seconds if asked is None else asked
            return throttled("too_many_requests", answer, after_seconds=after, alone=True)
        case 401 | 404 as status:
            # A method that is not found is a token that is none.
            return unauthorized(f"http_{status}", answer)
        case 400:
            return Rejected("bad_request", answer)
        case 403:
            return Rejected("forbidden", answer)
        case _:
            return by_status(heard.exchange, answer, now=wire.now)


channel = Telegram()
