"""Kind `line`: an official account's push messages, or answers through a reply token while that holds, if wished.

Our key is the retry key of a push, from the first attempt on: LINE answers 409 to a repeat of what it has accepted, for
a day. An answer through a reply token has no key; the token can be used once, and what it does not take is pushed.
"""

import re
from collections.abc import Mapping
from typing import ClassVar, Final, Literal
from uuid import UUID, uuid5

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
    is_id,
    read_draft,
    unreached,
)
from app.domain.content import Reading, read_content
from app.domain.errors import InvalidContent, Problem
from app.domain.outcome import Delivered, Outcome, Rejected, RetryLater, Unknown
from app.wire.asking import JSON_HEADERS, Heard, json_body, token_of
from app.wire.json_answer import list_inside, text_inside
from app.wire.judging import by_status, throttled, unauthorized
from app.wire.pointer import BaseUrl, Pointer

UNITS_MAX: Final = 5000
MESSAGES_MAX: Final = 5
# How long a month's end is not asked for again: what other messages had reserved may be given back sooner.
QUOTA_SECONDS: Final = 3600.0
# Names our keys among all UUIDs; it never changes.
KEYS: Final = UUID("6f1b2a52-4c0e-5d51-9a55-6b1f0c6a7e31")

_MESSAGE: Final = frozenset({"text", "messages", "notificationDisabled", "customAggregationUnits"})
_PLACE: Final = re.compile(r"[UCR][0-9a-f]{32}")
_SPENT: Final = "reply_token_invalid"


class LineConfig(Options):
    """`to` is the id of a user, a group or a room. `answer_by = "reply_token"`: answers cost nothing of the month's
    messages, while the token holds.
    """

    token: Pointer
    to: str | None = None
    answer_by: Literal["push", "reply_token"] = "push"
    api_url: BaseUrl = "https://api.line.me"

    @field_validator("to")
    @classmethod
    def _is_a_place(cls, value: str | None) -> str | None:
        if value is not None and _PLACE.fullmatch(value) is None:
            raise ValueError("to is the id of a user, a group or a room: U, C or R and 32 digits")
        return value


class Line(NoLookup):
    """What an official account says."""

    kind: ClassVar = "line"
    Config = LineConfig
    limits: ClassVar = Limits(rate_per_second=2000, key_ttl_seconds=86_400)
    answers: ClassVar = frozenset({"line"})
    facts: ClassVar = Facts(
        key="`X-Line-Retry-Key`, as a UUID; none through a reply token",
        lookup="no: a repeat itself tells, for a day",
        receipt="the ids of the sent messages",
    )

    def secrets(self, config: LineConfig) -> tuple[str, ...]:
        """The channel access token."""
        return (config.token,)

    def check(self, draft: Draft, *, reply: Reply | None, config: LineConfig) -> Address:
        """A user, a group or a room, and the reply token where that is wished; raises `InvalidContent`."""
        address = _address(draft, reply, config)
        reading = read_draft(draft)
        reading.only(_MESSAGE)
        text = reading.text("text", most=UNITS_MAX)
        if text and len(text.encode("utf-16-le")) > 2 * UNITS_MAX:
            reading.refuse("text", "text_too_long", f"at most {UNITS_MAX} UTF-16 units")
        _check_messages(reading, has_text=text is not None)
        reading.check()
        return address

    async def send(
        self, message: Outgoing, *, config: LineConfig, secrets: Secrets, wire: Wire
    ) -> Outcome:
        """Answer through the token, and push what that does not take."""
        token = token_of(secrets[0])
        if not isinstance(token, str):
            return token
        place = message.at("to")
        said = _said(read_content(message.content_type, message.body))
        headers = {"Authorization": f"Bearer {token}", **JSON_HEADERS}
        given = text_inside(message.reply, "reply_token")
        if message.address.get("via") == "reply_token" and given is not None:
            said_back = {
                name: one for name, one in said.items() if name != "customAggregationUnits"
            }
            body = json_body({"replyToken": given, **said_back})
            url = f"{config.api_url}/v2/bot/message/reply"
            outcome = _judged(await wire.ask("POST", url, headers=headers, body=body), wire)
            if not (isinstance(outcome, Rejected) and outcome.reason == _SPENT):
                return outcome
        headers["X-Line-Retry-Key"] = str(uuid5(KEYS, message.key))
        url, body = f"{config.api_url}/v2/bot/message/push", json_body({"to": place, **said})
        return _pushed(await wire.ask("POST", url, headers=headers, body=body), wire)

    async def probe(self, *, config: LineConfig, secrets: Secrets, wire: Wire) -> Probed:
        """Ask LINE whose token it is."""
        token = token_of(secrets[0])
        if not isinstance(token, str):
            return NO_TOKEN
        headers = {"Authorization": f"Bearer {token}"}
        heard = await wire.ask("GET", f"{config.api_url}/v2/bot/info", headers=headers)
        if not isinstance(heard, Heard):
            return unreached(heard)
        name = text_inside(heard.said, "displayName") or text_inside(heard.said, "basicId")
        if heard.status == 200 and name is not None:  # noqa: PLR2004
            return Probed(good=True, words=f"LINE knows its token: {name}")
        words = f"LINE does not take its token ({heard.status}): look at the channel's console"
        return Probed(good=False, words=words)


def _address(draft: Draft, reply: Reply | None, config: LineConfig) -> Address:
    named = draft.recipient or config.to
    if named is not None:
        if _PLACE.fullmatch(named) is None:
            raise InvalidContent(Problem("/to", "to_invalid", "the id of a user, group or room"))
        return Address({"to": named})
    if reply is None:
        raise InvalidContent(Problem("/to", "to_missing"))
    # The kind of the place comes first, and its id last.
    place = reply.parts[-1] if reply.parts else ""
    if not is_id(place):
        raise InvalidContent(Problem("/to", "to_missing"))
    if config.answer_by == "reply_token" and text_inside(reply.capability, "reply_token"):
        return Address({"to": place, "via": "reply_token"}, uses_reply=True)
    return Address({"to": place})


def _check_messages(reading: Reading, *, has_text: bool) -> None:
    messages = reading.items("messages", most=MESSAGES_MAX)
    if not all(isinstance(one, dict) and text_inside(one, "type") for one in messages):
        reading.refuse("messages", "wrong_type", "objects, each with its type")
    if not isinstance(reading.content.get("notificationDisabled", False), bool):
        reading.refuse("notificationDisabled", "wrong_type", "true or false")
    reading.items("customAggregationUnits", most=1)
    if reading.problems:
        return
    if has_text and messages:
        reading.refuse("text", "field_not_allowed", "text or messages, not both")
    elif not has_text and not messages:
        reading.refuse("text", "text_empty")


def _said(content: Mapping[str, object]) -> dict[str, object]:
    """The content as LINE wants it: a text is one message."""
    said = {name: value for name, value in content.items() if name != "text"}
    if content.get("text") is not None:
        said["messages"] = [{"type": "text", "text": content["text"]}]
    return said


def _pushed(heard: Heard | RetryLater | Unknown, wire: Wire) -> Outcome:
    """A conflict is what LINE says of a key that it has accepted before."""
    if isinstance(heard, Heard) and heard.status == 409:  # noqa: PLR2004
        first = _receipt(heard) or heard.header("x-line-accepted-request-id")
        return Delivered(first, heard.answer)
    return _judged(heard, wire)


def _judged(heard: Heard | RetryLater | Unknown, wire: Wire) -> Outcome:
    if not isinstance(heard, Heard):
        return heard
    answer, receipt = heard.answer, _receipt(heard)
    words = (text_inside(heard.said, "message") or "").lower()
    match heard.status:
        case 200 if receipt is not None:
            return Delivered(receipt, answer)
        case 409:
            # Only a key can have been there before, and this has none.
            return Unknown("http_409", answer)
        case 429 if "monthly limit" in words:
            return throttled("monthly_limit", answer, after_seconds=QUOTA_SECONDS)
        case 400 if "invalid reply token" in words:
            return Rejected(_SPENT, answer)
        case 403:
            # The account or its plan has no right to send: so it is for every message.
            return unauthorized("http_403", answer)
        case _:
            return by_status(heard.exchange, answer, now=wire.now)


def _receipt(heard: Heard) -> str | None:
    """The ids of what was sent, in order; None where one of them is missing."""
    ids = [text_inside(one, "id", most=64) for one in list_inside(heard.said, "sentMessages")]
    return ",".join(one for one in ids if one) if ids and all(ids) else None


channel = Line()
