"""Kind `twilio`: SMS and WhatsApp messages, from the number that was written to.

Twilio knows no key. What it has accepted can be looked for by the two numbers and the text: of two equal texts to one
number within a second or two it cannot be told which is there.
"""

import re
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import ClassVar, Final, Self
from urllib.parse import urlencode

from pydantic import Field, model_validator

from app.channels import (
    NO_TOKEN,
    Address,
    Draft,
    Facts,
    Limits,
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
from app.domain.outcome import Delivered, Found, NotThere, Outcome, Rejected, RetryLater, Unknown
from app.wire.asking import FORM_HEADERS, Heard, basic, form_body, json_body, token_of
from app.wire.json_answer import inside, text_inside
from app.wire.judging import by_status, not_found_out, throttled, unauthorized
from app.wire.pointer import BaseUrl, Pointer

TEXT_MAX: Final = 1600
MEDIA_MAX: Final = 10
VARIABLES_MAX: Final = 100
LOOKUP_BYTES_MAX: Final = 1 << 20
LOOKUP_PAGE: Final = 100
# Twilio writes whole seconds down.
SKEW: Final = timedelta(seconds=1)

_ACCOUNT: Final = re.compile(r"AC[0-9a-fA-F]{32}")
_NUMBER: Final = re.compile(r"(?:whatsapp:)?\+[1-9][0-9]{4,14}|[0-9]{3,8}")
_SENDER: Final = re.compile(
    r"(?:whatsapp:)?\+[1-9][0-9]{4,14}|[0-9]{3,8}|[A-Za-z0-9 ]{1,11}|MG[0-9a-fA-F]{32}"
)
_MEDIA: Final = re.compile(r"https://[!-~]{1,2000}")
_WHATSAPP: Final = "whatsapp:"
# Codes in the body, which say more than its status.
_THROTTLED: Final = frozenset({"14107", "20429", "63018"})
_ACCOUNT_CODES: Final = frozenset({"20003", "20005", "20006", "20008", "20404", "21607"})
_LATER: Final = frozenset({"20503"})


class TwilioConfig(Options):
    """`from` is a number, or the id of a messaging service (MG...); without it only conversations are answered.

    With `api_key` (SK...) `token` is its secret, else it is the token of the account.
    """

    account_sid: str
    token: Pointer
    api_key: str | None = None
    from_: str | None = Field(default=None, alias="from")
    to: str | None = None
    api_url: BaseUrl = "https://api.twilio.com"

    @model_validator(mode="after")
    def _has_forms(self) -> Self:
        if _ACCOUNT.fullmatch(self.account_sid) is None:
            raise ValueError("account_sid begins with AC, and 32 hexadecimal digits follow")
        if self.api_key is not None and not re.fullmatch(r"SK[0-9a-fA-F]{32}", self.api_key):
            raise ValueError("api_key begins with SK, and 32 hexadecimal digits follow")
        if self.from_ is not None and _SENDER.fullmatch(self.from_) is None:
            raise ValueError("from is a number as in +15550100, or the id of a messaging service")
        if self.to is not None and _NUMBER.fullmatch(self.to) is None:
            raise ValueError("to is a number, as in +15550100 or whatsapp:+15550100")
        return self


class Twilio:
    """An account's messages."""

    kind: ClassVar = "twilio"
    Config = TwilioConfig
    limits: ClassVar = Limits(rate_per_second=50, pace_seconds=1)
    answers: ClassVar = frozenset({"twilio"})
    lookup_after_seconds: ClassVar[float | None] = 10.0
    facts: ClassVar = Facts(
        key="none: Twilio drops no repeat",
        lookup="yes, by the numbers and the text; not of media and templates",
        receipt="the message's `sid`",
    )

    def secrets(self, config: TwilioConfig) -> tuple[str, ...]:
        """The token of the account, or the secret of the API key."""
        return (config.token,)

    def check(self, draft: Draft, *, reply: Reply | None, config: TwilioConfig) -> Address:
        """Two numbers, both of WhatsApp or neither; raises `InvalidContent`."""
        parts = _numbers(draft, reply, config)
        reading = read_draft(draft)
        reading.only({"text", "media_urls", "content_sid", "content_variables"})
        text = reading.text("text", most=TEXT_MAX)
        media = reading.items("media_urls", most=MEDIA_MAX)
        template = reading.text("content_sid", most=34)
        if not all(isinstance(one, str) and _MEDIA.fullmatch(one) for one in media):
            reading.refuse("media_urls", "text_invalid", "https:// URLs, which Twilio fetches")
        _check_variables(reading)
        if not reading.problems and not (text or media or template):
            reading.refuse("text", "text_empty")
        reading.check()
        return Address(parts)

    async def send(
        self, message: Outgoing, *, config: TwilioConfig, secrets: Secrets, wire: Wire
    ) -> Outcome:
        """Create the message, which Twilio queues."""
        headers = _headers(config, secrets)
        if isinstance(headers, RetryLater):
            return headers
        body = form_body(_form(message))
        heard = await wire.ask(
            "POST", _messages(config), headers={**headers, **FORM_HEADERS}, body=body
        )
        return _judged(heard, wire)

    async def lookup(
        self, message: Outgoing, *, config: TwilioConfig, secrets: Secrets, wire: Wire
    ) -> Found:
        """List what went between the two numbers since the first attempt, and look for the text."""
        headers, form = _headers(config, secrets), dict(_form(message))
        if isinstance(headers, RetryLater):
            return headers
        if set(form) - {"To", "From", "MessagingServiceSid"} != {"Body"}:
            # What Twilio makes of media and templates is not what was sent.
            return Unknown("lookup_impossible", ours=True)
        query = {name: form[name] for name in ("To", "From") if name in form}
        url = f"{_messages(config)}?{urlencode(query | {'PageSize': str(LOOKUP_PAGE)})}"
        heard = await wire.ask("GET", url, headers=headers, answer_bytes_max=LOOKUP_BYTES_MAX)
        if not isinstance(heard, Heard) or heard.status != 200:  # noqa: PLR2004
            return not_found_out(_judged(heard, wire))
        messages = inside(heard.said, "messages")
        if not isinstance(messages, list):
            return RetryLater("lookup: answer_unreadable", answer=heard.answer)
        for one in messages:
            try:
                created = parsedate_to_datetime(text_inside(one, "date_created") or "")
                is_new = created >= message.first_attempted_at.replace(microsecond=0) - SKEW
            except (TypeError, ValueError):
                return RetryLater("lookup: answer_unreadable", answer=heard.answer)
            if not is_new:
                # The newest come first.
                return NotThere()
            if inside(one, "body") == form["Body"] and inside(one, "direction") != "inbound":
                return Delivered(text_inside(one, "sid"), heard.answer)
        more = inside(heard.said, "next_page_uri") is not None
        return Unknown("lookup_incomplete", ours=True) if more else NotThere()

    async def probe(self, *, config: TwilioConfig, secrets: Secrets, wire: Wire) -> Probed:
        """Ask Twilio for the account."""
        headers = _headers(config, secrets)
        if isinstance(headers, RetryLater):
            return NO_TOKEN
        url = f"{config.api_url}/2010-04-01/Accounts/{config.account_sid}.json"
        heard = await wire.ask("GET", url, headers=headers)
        if not isinstance(heard, Heard):
            return unreached(heard)
        if heard.status == 200 and text_inside(heard.said, "sid") == config.account_sid:  # noqa: PLR2004
            status = text_inside(heard.said, "status") or "of no known state"
            good = status == "active"
            return Probed(good=good, words=f"Twilio knows the account, and it is {status}")
        words = f"Twilio does not take account_sid and token ({heard.status}): look at its console"
        return Probed(good=False, words=words)


def _numbers(draft: Draft, reply: Reply | None, config: TwilioConfig) -> dict[str, str]:
    named, sender = draft.recipient or config.to, config.from_
    if named is not None and _NUMBER.fullmatch(named) is None:
        raise InvalidContent(Problem("/to", "to_invalid", "a number, as in +15550100"))
    answered = () if reply is None else reply.parts
    if len(answered) == 2 and all(map(is_id, answered)):  # noqa: PLR2004
        # A service chooses a number by itself; else it is the one that was written to.
        if sender is None or (named is None and not sender.startswith("MG")):
            sender = answered[0]
        named = named or answered[1]
    if named is None:
        raise InvalidContent(Problem("/to", "to_missing"))
    if sender is None:
        detail = "the destination has no number to send from"
        raise InvalidContent(Problem("/to", "to_invalid", detail))
    is_service = sender.startswith("MG")
    if not is_service and sender.startswith(_WHATSAPP) != named.startswith(_WHATSAPP):
        detail = "WhatsApp is written to from WhatsApp alone"
        raise InvalidContent(Problem("/to", "to_invalid", detail))
    return {"to": named, "service" if is_service else "from": sender}


def _check_variables(reading: Reading) -> None:
    variables = reading.content.get("content_variables")
    if variables is None:
        return
    given = variables.values() if isinstance(variables, dict) else [None]
    if len(given) > VARIABLES_MAX or not all(isinstance(one, str) for one in given):
        reading.refuse("content_variables", "wrong_type", "an object of strings")


def _form(message: Outgoing) -> list[tuple[str, str]]:
    content = read_content(message.content_type, message.body)
    form = [("To", message.at("to"))]
    service = message.address.get("service")
    form.append(("MessagingServiceSid", service) if service else ("From", message.at("from")))
    if content.get("text"):
        form.append(("Body", str(content["text"])))
    media = content.get("media_urls")
    form += [("MediaUrl", str(one)) for one in media] if isinstance(media, list) else []
    if content.get("content_sid"):
        form.append(("ContentSid", str(content["content_sid"])))
    if content.get("content_variables"):
        form.append(("ContentVariables", json_body(content["content_variables"]).decode()))
    return form


def _headers(config: TwilioConfig, secrets: Secrets) -> dict[str, str] | RetryLater:
    token = token_of(secrets[0])
    if isinstance(token, RetryLater):
        return token
    return {"Authorization": basic(config.api_key or config.account_sid, token)}


def _messages(config: TwilioConfig) -> str:
    return f"{config.api_url}/2010-04-01/Accounts/{config.account_sid}/Messages.json"


def _judged(heard: Heard | RetryLater | Unknown, wire: Wire) -> Outcome:
    if not isinstance(heard, Heard):
        return heard
    answer, code = heard.answer, text_inside(heard.said, "code", most=6)
    if heard.status // 100 == 2:  # noqa: PLR2004
        sid = text_inside(heard.said, "sid", most=64)
        return Delivered(sid, answer) if sid else Unknown("answer_unreadable", answer)
    if code in _THROTTLED:
        return throttled(f"twilio_{code}", answer, after_seconds=heard.after_seconds)
    if code in _ACCOUNT_CODES:
        return unauthorized(f"twilio_{code}", answer)
    if code in _LATER:
        return RetryLater(f"twilio_{code}", heard.after_seconds, answer=answer)
    if code is not None and code.isdigit() and heard.status in {400, 403, 422}:
        return Rejected(f"twilio_{code}", answer)
    return by_status(heard.exchange, answer, now=wire.now)


channel = Twilio()
