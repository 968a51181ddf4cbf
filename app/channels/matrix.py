"""Kind `matrix`: a user of a homeserver writes into the room, and the thread of it, that is answered.

Our key is the transaction id in the path of the PUT: the server answers a repeat with the event that it has already. It
does so for one device, so a token must stay that of one device, and it does so for a day at least.
"""

import re
from typing import ClassVar, Final
from urllib.parse import quote

from pydantic import field_validator

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
    read_draft,
    unreached,
)
from app.domain.content import Reading, read_content
from app.domain.errors import InvalidContent, Problem
from app.domain.outcome import Delivered, Outcome, Rejected, RetryLater, Unknown
from app.wire.asking import JSON_HEADERS, Heard, json_body, token_of
from app.wire.json_answer import inside, text_inside
from app.wire.judging import by_status, throttled, unauthorized
from app.wire.pointer import BaseUrl, Pointer

# A whole event has 65,536 bytes, with what the server puts around it.
CONTENT_BYTES_MAX: Final = 60_000
PART_BYTES_MAX: Final = 255

_MESSAGE: Final = frozenset({"text", "body", "msgtype", "format", "formatted_body", "m.mentions"})
_TYPES: Final = frozenset({"m.text", "m.notice", "m.emote"})
_ROOM: Final = re.compile(r"![!-.0-~]{1,254}")
_EVENT: Final = re.compile(r"\$[!-~]{1,254}")
_ERROR: Final = re.compile(r"M_[A-Z0-9_]{1,60}")
# Every message is told so, until a person has changed something.
_ACCOUNT: Final = frozenset(
    {"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_USER_LOCKED"}
    | {"M_USER_SUSPENDED", "M_CONSENT_NOT_GIVEN", "M_GUEST_ACCESS_FORBIDDEN"}
)
_LATER: Final = frozenset({"M_RESOURCE_LIMIT_EXCEEDED"})


class MatrixConfig(Options):
    """`api_url` is the homeserver's. `to` is the id of a room, and that of a thread's first event behind a slash."""

    api_url: BaseUrl
    token: Pointer
    to: str | None = None

    @field_validator("to")
    @classmethod
    def _is_a_place(cls, value: str | None) -> str | None:
        if value is not None and _parts_of(value) is None:
            raise ValueError("to is the id of a room, as in !abc:example.org; no #alias")
        return value


class Matrix(NoLookup):
    """What a user says, from one device."""

    kind: ClassVar = "matrix"
    Config = MatrixConfig
    # A server's own limit is told by 429; many take ten at once and one in five seconds after them.
    limits: ClassVar = Limits(rate_per_second=1, pace_seconds=1, key_ttl_seconds=86_400)
    answers: ClassVar = frozenset({"matrix"})
    facts: ClassVar = Facts(
        key="the transaction id in the path: a repeat is answered with the first event",
        lookup="no: the repeat itself tells, for a day",
        receipt="the event's id",
    )

    def secrets(self, config: MatrixConfig) -> tuple[str, ...]:
        """The access token of one device."""
        return (config.token,)

    def check(self, draft: Draft, *, reply: Reply | None, config: MatrixConfig) -> Address:
        """A room, and the first event of a thread in it; raises `InvalidContent`."""
        parts = _place(draft, reply, config)
        reading = read_draft(draft)
        reading.only(_MESSAGE)
        name = "body" if "body" in reading.content else "text"
        reading.text(name, most=CONTENT_BYTES_MAX, required=True)
        reading.text("formatted_body", most=CONTENT_BYTES_MAX)
        _check_types(reading)
        if not reading.problems:
            size = len(json_body(_event(dict(reading.content), parts)))
            if size > CONTENT_BYTES_MAX:
                reading.refuse(name, "text_too_long", f"at most {CONTENT_BYTES_MAX} bytes in all")
        reading.check()
        return Address(parts)

    async def send(
        self, message: Outgoing, *, config: MatrixConfig, secrets: Secrets, wire: Wire
    ) -> Outcome:
        """Put the event under our key."""
        token = token_of(secrets[0])
        if not isinstance(token, str):
            return token
        room, key = quote(message.at("room_id"), safe=""), quote(message.key, safe="")
        url = f"{config.api_url}/_matrix/client/v3/rooms/{room}/send/m.room.message/{key}"
        event = _event(read_content(message.content_type, message.body), message.address)
        headers = {"Authorization": f"Bearer {token}", **JSON_HEADERS}
        heard = await wire.ask("PUT", url, headers=headers, body=json_body(event))
        return _judged(heard, wire)

    async def probe(self, *, config: MatrixConfig, secrets: Secrets, wire: Wire) -> Probed:
        """Ask the homeserver whose token it is."""
        token = token_of(secrets[0])
        if not isinstance(token, str):
            return NO_TOKEN
        url = f"{config.api_url}/_matrix/client/v3/account/whoami"
        heard = await wire.ask("GET", url, headers={"Authorization": f"Bearer {token}"})
        if not isinstance(heard, Heard):
            return unreached(heard)
        who = text_inside(heard.said, "user_id")
        if heard.status == 200 and who is not None:  # noqa: PLR2004
            return Probed(good=True, words=f"the homeserver knows its token: {who}")
        words = f"the homeserver does not take its token ({_error(heard) or heard.status})"
        return Probed(good=False, words=f"{words}: look at api_url, and log in again")


def _parts_of(named: str) -> dict[str, str] | None:
    """A room, and the event that begins a thread behind the first slash, which no id of a room holds."""
    room, slash, thread = named.partition("/")
    if not _ROOM.fullmatch(room) or len(room.encode()) > PART_BYTES_MAX:
        return None
    if not slash:
        return {"room_id": room}
    return {"room_id": room, "thread": thread} if _EVENT.fullmatch(thread) else None


def _place(draft: Draft, reply: Reply | None, config: MatrixConfig) -> dict[str, str]:
    named = draft.recipient or config.to
    if named is not None:
        parts = _parts_of(named)
        if parts is None:
            raise InvalidContent(Problem("/to", "to_invalid", "the id of a room"))
        return parts
    answered = () if reply is None else reply.parts[:2]
    parts = _parts_of("/".join(part for part in answered if part))
    if parts is None:
        raise InvalidContent(Problem("/to", "to_missing"))
    return parts


def _check_types(reading: Reading) -> None:
    content = reading.content
    if {"body", "text"} <= set(content):
        reading.refuse("text", "field_not_allowed", "body or text, not both")
    if content.get("msgtype", "m.text") not in _TYPES:
        reading.refuse("msgtype", "wrong_type", f"one of {', '.join(sorted(_TYPES))}")
    if ("format" in content) != ("formatted_body" in content):
        reading.refuse("format", "required", "format and formatted_body come together")
    if not isinstance(content.get("format", ""), str):
        reading.refuse("format", "wrong_type", "org.matrix.custom.html")
    if not isinstance(content.get("m.mentions", {}), dict):
        reading.refuse("m.mentions", "wrong_type", "an object")


def _event(content: dict[str, object], address: object) -> dict[str, object]:
    """The content of the event, in its thread, in an order that stays."""
    said = {"msgtype": "m.text", **content}
    if "text" in said:
        said["body"] = said.pop("text")
    thread = text_inside(address, "thread")
    if thread is not None:
        # A program that knows no threads shows an answer to the first event of it.
        said["m.relates_to"] = {
            "rel_type": "m.thread",
            "event_id": thread,
            "is_falling_back": True,
            "m.in_reply_to": {"event_id": thread},
        }
    return said


def _judged(heard: Heard | RetryLater | Unknown, wire: Wire) -> Outcome:
    if not isinstance(heard, Heard):
        return heard
    answer, error = heard.answer, _error(heard)
    if heard.status // 100 == 2:  # noqa: PLR2004
        event = text_inside(heard.said, "event_id")
        return Delivered(event, answer) if event else Unknown("answer_unreadable", answer)
    if error == "M_LIMIT_EXCEEDED" or heard.status == 429:  # noqa: PLR2004
        return throttled((error or "http_429").lower(), answer, after_seconds=_after_seconds(heard))
    if error in _ACCOUNT:
        return unauthorized(error.lower(), answer)
    if error in _LATER:
        return RetryLater(error.lower(), heard.after_seconds, answer=answer)
    if error is not None and heard.status in {400, 403, 404, 405, 413}:
        return Rejected(error.lower(), answer)
    return by_status(heard.exchange, answer, now=wire.now)


def _after_seconds(heard: Heard) -> float | None:
    """What the header asks for, and what the body of an older server does, in milliseconds."""
    asked = inside(heard.said, "retry_after_ms")
    if heard.after_seconds is not None or isinstance(asked, bool) or not isinstance(asked, int):
        return heard.after_seconds
    return min(asked, 86_400_000) / 1000 if asked >= 0 else None


def _error(heard: Heard) -> str | None:
    word = text_inside(heard.said, "errcode") or ""
    return word if _ERROR.fullmatch(word) else None


channel = Matrix()
