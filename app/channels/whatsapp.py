"""Kind `whatsapp`: the Cloud API's messages, from the number that was written to.

Meta drops no repeat and cannot be asked: our key travels along as `biz_opaque_callback_data` and comes back with each
status of the message. What Meta accepts is not delivered yet: that, and what fails later, the source of statuses tells.
"""

import re
from collections.abc import Mapping
from typing import ClassVar, Final
from urllib.parse import quote

from pydantic import model_validator

from app.channels import (
    NO_TOKEN,
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
from app.domain.content import Reading, read_content
from app.domain.errors import InvalidContent, Problem
from app.domain.outcome import Delivered, Outcome, Rejected, RetryLater, Unknown
from app.wire.asking import JSON_HEADERS, Heard, json_body, token_of
from app.wire.json_answer import text_inside
from app.wire.judging import by_status, throttled, unauthorized
from app.wire.pointer import BaseUrl, Pointer

TEXT_MAX: Final = 4096
# One message in six seconds to one person, for long. Up to 45 at once are borrowed from what comes after, so that the
# pace is a shorter one.
PAIR_SECONDS: Final = 6.0

# A message that is no text has one of these, an object of the same name as its type.
_TYPES: Final = frozenset(
    {"audio", "document", "image", "interactive", "location", "reaction", "sticker"}
    | {"template", "video"}
)
_FIELDS: Final = frozenset({"text", "type", "preview_url", "context", "contacts"}) | _TYPES
_NUMBER_ID: Final = re.compile(r"[0-9]{5,20}")
_PHONE: Final = re.compile(r"\+?[1-9][0-9]{4,19}")
_USER: Final = re.compile(r"[A-Z]{2}\.(?:ENT\.)?[A-Za-z0-9]{1,128}")
_GROUP: Final = re.compile(r"[A-Za-z0-9_=-]{8,200}")

# Meta's codes, which say more than its status.
_THROTTLED: Final = frozenset({4, 80007, 130429, 131048})
_PAIR: Final = 131056
_LATER: Final = frozenset({2, 131016, 131057})
_PERHAPS: Final = frozenset({1, 131000})
# Token, permissions, payment, or the account: every message is told so, until a person has changed something.
_ACCOUNT: Final = frozenset(
    {0, 3, 10, 33, 190, *range(200, 300), 368, 131005, 131031, 131037, 131042, 131045, 133010}
)
_OF_THE_MESSAGE: Final = 100


class WhatsappConfig(Options):
    """`phone_number_id` is Meta's id of the number to send from; without it only conversations are answered."""

    token: Pointer
    phone_number_id: str | None = None
    to: str | None = None
    api_url: BaseUrl = "https://graph.facebook.com/v25.0"

    @model_validator(mode="after")
    def _has_forms(self) -> "WhatsappConfig":
        if self.phone_number_id is not None and not _NUMBER_ID.fullmatch(self.phone_number_id):
            raise ValueError("phone_number_id is an id of digits, and not the number")
        if self.to is not None and _recipient(self.to, in_answer=False) is None:
            raise ValueError("to is a number as in +15550100, or a user's id as in US.123")
        return self


class Whatsapp(NoLookup):
    """What a business says."""

    kind: ClassVar = "whatsapp"
    Config = WhatsappConfig
    limits: ClassVar = Limits(rate_per_second=80, pace_seconds=1)
    answers: ClassVar = frozenset({"whatsapp"})
    facts: ClassVar = Facts(
        key="`biz_opaque_callback_data`, for statuses; Meta drops no repeat",
        lookup="no: only the statuses that come in name our key",
        receipt="the message's id (`wamid`)",
    )

    def secrets(self, config: WhatsappConfig) -> tuple[str, ...]:
        """The token of a system user."""
        return (config.token,)

    def check(self, draft: Draft, *, reply: Reply | None, config: WhatsappConfig) -> Address:
        """A number of ours, and a number, a user or a group; raises `InvalidContent`."""
        parts = _parties(draft, reply, config)
        reading = read_draft(draft)
        reading.only(_FIELDS)
        text = reading.text("text", most=TEXT_MAX)
        _check_fields(reading, has_text=text is not None)
        reading.check()
        return Address(parts)

    async def send(
        self, message: Outgoing, *, config: WhatsappConfig, secrets: Secrets, wire: Wire
    ) -> Outcome:
        """Give it to Meta, which says what became of it later."""
        token = token_of(secrets[0])
        if not isinstance(token, str):
            return token
        said = {
            "messaging_product": "whatsapp",
            "recipient_type": "group" if "group" in message.address else "individual",
            **_to(message),
            **_said(read_content(message.content_type, message.body)),
            "biz_opaque_callback_data": message.key,
        }
        ours = quote(message.at("phone_number_id"), safe="")
        url = f"{config.api_url}/{ours}/messages"
        headers = {"Authorization": f"Bearer {token}", **JSON_HEADERS}
        return _judged(await wire.ask("POST", url, headers=headers, body=json_body(said)), wire)

    async def probe(self, *, config: WhatsappConfig, secrets: Secrets, wire: Wire) -> Probed:
        """Ask Meta for the number, or for whose token it is."""
        token = token_of(secrets[0])
        if not isinstance(token, str):
            return NO_TOKEN
        what = config.phone_number_id or "me"
        fields = "display_phone_number,verified_name" if config.phone_number_id else "id,name"
        url = f"{config.api_url}/{what}?fields={fields}"
        heard = await wire.ask("GET", url, headers={"Authorization": f"Bearer {token}"})
        if not isinstance(heard, Heard):
            return unreached(heard)
        names = ("display_phone_number", "name", "id")
        name = next((one for name in names if (one := text_inside(heard.said, name))), None)
        if heard.status == 200 and name is not None:  # noqa: PLR2004
            return Probed(good=True, words=f"Meta knows its token: {name}")
        code = _code(heard)
        told = f"code {code}" if code is not None else str(heard.status)
        words = f"Meta does not take its token or phone_number_id ({told}): look at the app's page"
        return Probed(good=False, words=words)


def _recipient(named: str, *, in_answer: bool) -> dict[str, str] | None:
    """How somebody is addressed: a number, a user's id, or a group, which only a conversation names."""
    if _PHONE.fullmatch(named):
        return {"to": named}
    if _USER.fullmatch(named):
        return {"user": named}
    if in_answer and is_id(named):
        return {"group" if _GROUP.fullmatch(named) else "to": named}
    return None


def _parties(draft: Draft, reply: Reply | None, config: WhatsappConfig) -> dict[str, str]:
    named, ours = draft.recipient or config.to, config.phone_number_id
    theirs = None if named is None else _recipient(named, in_answer=False)
    if named is not None and theirs is None:
        raise InvalidContent(Problem("/to", "to_invalid", "a number as in +15550100"))
    answered = () if reply is None else reply.parts
    if len(answered) == 2 and is_id(answered[0]):  # noqa: PLR2004
        # An answer comes from the number that was written to.
        ours = answered[0] if named is None else ours or answered[0]
        theirs = theirs or _recipient(answered[1], in_answer=True)
    if theirs is None:
        raise InvalidContent(Problem("/to", "to_missing"))
    if ours is None:
        detail = "the destination has no number to send from"
        raise InvalidContent(Problem("/to", "to_invalid", detail))
    return {"phone_number_id": ours, **theirs}


def _check_fields(reading: Reading, *, has_text: bool) -> None:
    content = reading.content
    others = sorted(name for name in (*_TYPES, "contacts") if name in content)
    for name in others:
        if not isinstance(content[name], list if name == "contacts" else dict):
            reading.refuse(name, "wrong_type", "as Meta documents it for its type")
    for name, wanted in (("preview_url", bool), ("context", dict)):
        if name in content and not isinstance(content[name], wanted):
            reading.refuse(name, "wrong_type")
    if reading.problems:
        return
    if not has_text and not others:
        reading.refuse("text", "text_empty")
    for name in others if has_text else others[1:]:
        reading.refuse(name, "field_not_allowed", "a message is of one type")
    kind = "text" if has_text else next(iter(others), "text")
    if content.get("type", kind) != kind:
        reading.refuse("type", "wrong_type", f"this message is of type {kind}")


def _said(content: Mapping[str, object]) -> dict[str, object]:
    """The content as Meta wants it, in an order that stays."""
    said: dict[str, object] = {}
    if "context" in content:
        said["context"] = content["context"]
    if content.get("text") is not None:
        text = {"body": content["text"]}
        if "preview_url" in content:
            text["preview_url"] = content["preview_url"]
        return {**said, "type": "text", "text": text}
    kind = next(name for name in sorted((*_TYPES, "contacts")) if name in content)
    return {**said, "type": kind, kind: content[kind]}


def _to(message: Outgoing) -> dict[str, str]:
    if "user" in message.address:
        return {"recipient": message.at("user")}
    return {"to": message.address.get("group") or message.at("to")}


def _judged(heard: Heard | RetryLater | Unknown, wire: Wire) -> Outcome:
    if not isinstance(heard, Heard):
        return heard
    answer, code = heard.answer, _code(heard)
    if heard.status // 100 == 2 and code is None:  # noqa: PLR2004
        wamid = text_inside(heard.said, "messages", 0, "id")
        return Delivered(wamid, answer) if wamid else Unknown("answer_unreadable", answer)
    reason, after = f"whatsapp_{code}", heard.after_seconds
    if code is None:
        return by_status(heard.exchange, answer, now=wire.now)
    if code == _PAIR:
        after = PAIR_SECONDS if after is None else after
        return throttled(reason, answer, after_seconds=after, alone=True)
    if code in _THROTTLED or heard.status == 429:  # noqa: PLR2004
        return throttled(reason, answer, after_seconds=after)
    if code in _ACCOUNT or heard.status == 401:  # noqa: PLR2004
        return unauthorized(reason, answer)
    if code in _LATER:
        return RetryLater(reason, after, answer=answer)
    # Codes from 100 on are of the message, whatever their status; below them are those of the API.
    is_of_it = code >= _OF_THE_MESSAGE or heard.status // 100 == 4  # noqa: PLR2004
    return (
        Rejected(reason, answer) if is_of_it and code not in _PERHAPS else Unknown(reason, answer)
    )


def _code(heard: Heard) -> int | None:
    code = text_inside(heard.said, "error", "code", most=9)
    return int(code) if code is not None and code.isascii() and code.isdigit() else None


channel = Whatsapp()
