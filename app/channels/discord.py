"""Kind `discord`: a bot posts into the channel or thread that is answered, an incoming webhook into its own; follow-ups
of an interaction where that is wished, for 15 minutes.

A bot's message carries our key as its nonce, which Discord holds unique for a few minutes: a repeat is answered with
the first one. After that it is looked for by what it says. Webhooks and follow-ups have neither.
"""

import re
from datetime import timedelta
from typing import ClassVar, Final, Literal, Self
from urllib.parse import quote

from pydantic import model_validator

from app import VERSION
from app.channels import (
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
from app.domain.content import read_content
from app.domain.discord import (
    FIELDS,
    FIELDS_OF_BOTS,
    FIELDS_OF_WEBHOOKS,
    bot_of,
    check_content,
    first_id_at,
    letters_of,
    nonce_of,
    spell_message,
)
from app.domain.errors import InvalidContent, Problem
from app.domain.outcome import (
    Answer,
    Delivered,
    Found,
    NotThere,
    Outcome,
    Rejected,
    RetryLater,
    Shut,
    Unknown,
)
from app.wire.asking import JSON_HEADERS, Heard, json_body, token_of
from app.wire.json_answer import inside, json_list, seconds_inside, text_inside
from app.wire.judging import by_status, not_found_out, throttled, unauthorized
from app.wire.pointer import BaseUrl, Pointer

LOOKUP_BYTES_MAX: Final = 4 << 20
LOOKUP_PAGES_MAX: Final = 3
LOOKUP_PAGE: Final = 100
# Our clock and Discord's may differ by so much; within the nonce's minutes nothing is sent twice anyway.
SKEW: Final = timedelta(seconds=2)
# Discord asks for this form, and turns away what has another. There is no page of ours to name.
AGENT: Final = {"User-Agent": f"DiscordBot (https://sinksweep.invalid, {VERSION})"}

_ID: Final = re.compile(r"[0-9]{15,21}")
_APPLICATION: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
_TOKEN: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._~-]{1,1000}")
# Discord's codes, which say more than its status.
_ACCOUNT: Final = frozenset({"40001", "40002", "50014", "20001"})
_SLOW: Final = frozenset({"20016", "20022", "20028", "20029", "31001", "31002"})
_LATER: Final = frozenset({"40333", "130000"})
_GONE: Final = frozenset({"10015", "50027"})


class DiscordConfig(Options):
    """`token` is a bot's. `webhook_url` points to the URL of an incoming webhook, in whose channel `to` is a thread.

    `answer_by = "interaction"`: a command is answered by a follow-up, while its token holds.
    """

    token: Pointer | None = None
    webhook_url: Pointer | None = None
    to: str | None = None
    answer_by: Literal["message", "interaction"] = "message"
    api_url: BaseUrl = "https://discord.com/api/v10"

    @model_validator(mode="after")
    def _has_one_way(self) -> Self:
        if self.webhook_url is not None and (self.token or self.answer_by != "message"):
            raise ValueError("webhook_url posts to its own channel: it stands alone")
        if self.token is None and self.webhook_url is None and self.answer_by == "message":
            raise ValueError("a token or a webhook_url is needed")
        if self.to is not None and _ID.fullmatch(self.to) is None:
            raise ValueError("to is the id of a channel or of a thread, digits alone")
        return self


class Discord:
    """What a bot, a webhook or an interaction says."""

    kind: ClassVar = "discord"
    Config = DiscordConfig
    limits: ClassVar = Limits(rate_per_second=45, pace_seconds=1, key_ttl_seconds=120)
    answers: ClassVar = frozenset({"discord"})
    lookup_after_seconds: ClassVar[float | None] = 5.0
    facts: ClassVar = Facts(
        key="a bot's `nonce`, with `enforce_nonce`, for some minutes; none elsewhere",
        lookup="yes, a bot's texts, where it may read the history; not webhooks and follow-ups",
        receipt="the message's id",
    )

    def secrets(self, config: DiscordConfig) -> tuple[str, ...]:
        """The token, or the URL of the incoming webhook."""
        return tuple(one for one in (config.token, config.webhook_url) if one is not None)

    def check(self, draft: Draft, *, reply: Reply | None, config: DiscordConfig) -> Address:
        """A channel, a thread of the webhook's, or an interaction; raises `InvalidContent`."""
        address = _address(draft, reply, config)
        reading = read_draft(draft)
        fields = {None: FIELDS_OF_BOTS, "webhook": FIELDS_OF_WEBHOOKS}
        reading.only(fields.get(address.parts.get("via"), FIELDS))
        check_content(reading)
        reading.check()
        return address

    async def send(
        self, message: Outgoing, *, config: DiscordConfig, secrets: Secrets, wire: Wire
    ) -> Outcome:
        """Post it; as the bot, where there is one, if the interaction has ended."""
        said = spell_message(read_content(message.content_type, message.body))
        via, secret = message.address.get("via"), token_of(secrets[0]) if secrets else None
        if isinstance(secret, RetryLater):
            return secret
        if via == "webhook":
            return await _execute(secret or "", said, message.address.get("thread_id"), wire=wire)
        if via == "interaction":
            outcome = await _follow_up(message, said, config=config, wire=wire)
            spent = isinstance(outcome, Rejected) and outcome.reason == "reply_expired"
            if not spent or secret is None or "channel_id" not in message.address:
                return outcome
        said |= {"nonce": nonce_of(message.key), "enforce_nonce": True}
        url = _messages(message, config)
        headers = {"Authorization": f"Bot {secret}", **AGENT, **JSON_HEADERS}
        return _judged(await wire.ask("POST", url, headers=headers, body=json_body(said)), wire)

    async def lookup(
        self, message: Outgoing, *, config: DiscordConfig, secrets: Secrets, wire: Wire
    ) -> Found:
        """Read the channel backwards to before the first attempt, and look for what the bot says there."""
        content = spell_message(read_content(message.content_type, message.body))
        text = content.get("content")
        if "via" in message.address or not isinstance(text, str) or not letters_of(text):
            return Unknown("lookup_impossible", ours=True)
        token = token_of(secrets[0])
        if not isinstance(token, str):
            return token
        since, query = first_id_at(message.first_attempted_at - SKEW), f"limit={LOOKUP_PAGE}"
        for _ in range(LOOKUP_PAGES_MAX):
            url = f"{_messages(message, config)}?{query}"
            headers = {"Authorization": f"Bot {token}", **AGENT}
            heard = await wire.ask("GET", url, headers=headers, answer_bytes_max=LOOKUP_BYTES_MAX)
            listed = json_list(heard.exchange) if isinstance(heard, Heard) else None
            if not isinstance(heard, Heard) or heard.status != 200 or listed is None:  # noqa: PLR2004
                return not_found_out(_judged(heard, wire))
            if not listed and "before" not in query:
                # So is a channel listed whose history the bot may not read.
                return Unknown("lookup_incomplete", ours=True)
            found = _among(listed, since=since, key=message.key, text=text, bot=bot_of(token))
            if found is not None or len(listed) < LOOKUP_PAGE:
                return found or NotThere()
            query = f"limit={LOOKUP_PAGE}&before={text_inside(listed[-1], 'id')}"
        return Unknown("lookup_incomplete", ours=True)

    async def probe(self, *, config: DiscordConfig, secrets: Secrets, wire: Wire) -> Probed:
        """Ask Discord whose token it is, or for the webhook."""
        if not secrets:
            return Probed(good=True, words="it answers interactions alone, which cannot be asked")
        secret = token_of(secrets[0])
        if not isinstance(secret, str):
            return Probed(good=False, words="its secret holds what none does")
        if config.webhook_url is not None:
            heard = await wire.ask("GET", secret.partition("?")[0], headers=AGENT)
        else:
            headers = {"Authorization": f"Bot {secret}", **AGENT}
            heard = await wire.ask("GET", f"{config.api_url}/users/@me", headers=headers)
        if not isinstance(heard, Heard):
            return unreached(heard)
        name = text_inside(heard.said, "username") or text_inside(heard.said, "name")
        if heard.status == 200 and text_inside(heard.said, "id") is not None:  # noqa: PLR2004
            return Probed(good=True, words=f"Discord knows its secret: {name or 'no name'}")
        words = f"Discord does not take its secret ({heard.status}): look at the developer portal"
        return Probed(good=False, words=words)


def _address(draft: Draft, reply: Reply | None, config: DiscordConfig) -> Address:
    named = draft.recipient or config.to
    if named is not None and _ID.fullmatch(named) is None:
        raise InvalidContent(Problem("/to", "to_invalid", "the id of a channel or of a thread"))
    if config.webhook_url is not None:
        return Address({"via": "webhook"} | ({"thread_id": named} if named else {}))
    place = reply.parts[1] if reply is not None and len(reply.parts) > 1 else ""
    channel_id = named or (place if is_id(place) else None)
    parts = {"channel_id": channel_id} if channel_id and config.token else {}
    if named is None and config.answer_by == "interaction" and reply is not None:
        if _interaction(reply.capability) is not None:
            return Address({**parts, "via": "interaction"}, uses_reply=True)
        if config.token is None:
            raise InvalidContent(Problem("/to", "reply_expired"))
    if not parts:
        raise InvalidContent(Problem("/to", "to_missing"))
    return Address(parts)


def _interaction(capability: object) -> str | None:
    """The end of the path that a follow-up goes to."""
    application = text_inside(capability, "application_id") or ""
    token = text_inside(capability, "token", most=1000) or ""
    good = _APPLICATION.fullmatch(application) and _TOKEN.fullmatch(token)
    return f"{application}/{token}" if good else None


def _messages(message: Outgoing, config: DiscordConfig) -> str:
    return f"{config.api_url}/channels/{quote(message.at('channel_id'), safe='')}/messages"


async def _follow_up(
    message: Outgoing, said: dict[str, object], *, config: DiscordConfig, wire: Wire
) -> Outcome:
    path = _interaction(message.reply)
    if path is None:
        return Rejected("reply_expired")
    url, headers = f"{config.api_url}/webhooks/{path}", {**AGENT, **JSON_HEADERS}
    heard = await wire.ask("POST", url, headers=headers, body=json_body(said))
    if isinstance(heard, Heard) and (heard.status == 401 or _code(heard) in _GONE):  # noqa: PLR2004
        return Rejected("reply_expired", heard.answer)
    return _judged(heard, wire)


async def _execute(url: str, said: dict[str, object], thread: str | None, *, wire: Wire) -> Outcome:
    """Post to a webhook, which tells of failures only if it is waited for."""
    url = f"{url.partition('?')[0]}?wait=true" + (f"&thread_id={thread}" if thread else "")
    headers = {**AGENT, **JSON_HEADERS}
    heard = await wire.ask("POST", url, headers=headers, body=json_body(said))
    if isinstance(heard, Heard) and _is_gone(heard):
        # Whoever goes on asking for what was deleted is turned away altogether.
        return _gone(heard.answer)
    return _judged(heard, wire)


def _is_gone(heard: Heard) -> bool:
    """Whether Discord knows the webhook no more; a 404 with another code is about a thread of it."""
    code = _code(heard)
    return heard.status == 401 or code in _GONE or (heard.status == 404 and code is None)  # noqa: PLR2004


def _gone(answer: Answer) -> RetryLater:
    return RetryLater("webhook_gone", counted=False, answer=answer, shut=Shut.GONE)


def _judged(heard: Heard | RetryLater | Unknown, wire: Wire) -> Outcome:
    if not isinstance(heard, Heard):
        return heard
    answer, code = heard.answer, _code(heard)
    if heard.status // 100 == 2:  # noqa: PLR2004
        id_ = text_inside(heard.said, "id", most=21)
        return Delivered(id_, answer) if id_ else Unknown("answer_unreadable", answer)
    reason = f"discord_{code}" if code else f"http_{heard.status}"
    if heard.status == 429 or code in _SLOW:  # noqa: PLR2004
        asked = seconds_inside(heard.said, "retry_after")
        after = heard.after_seconds if asked is None else asked
        # Without its words it was turned away at the door, and so is everything.
        alone = heard.said is not None and inside(heard.said, "global") is not True
        return throttled(reason, answer, after_seconds=after, alone=alone)
    if heard.status == 401 or code in _ACCOUNT:  # noqa: PLR2004
        return unauthorized(reason, answer)
    if code in _LATER:
        return RetryLater(reason, heard.after_seconds, answer=answer)
    if code is not None and heard.status // 100 == 4:  # noqa: PLR2004
        return Rejected(reason, answer)
    return by_status(heard.exchange, answer, now=wire.now)


def _code(heard: Heard) -> str | None:
    code = text_inside(heard.said, "code", most=9)
    return code if code and code.isascii() and code.isdigit() and code != "0" else None


def _among(
    listed: list[object], *, since: int, key: str, text: str, bot: str | None
) -> Found | None:
    """What a page tells, the newest first; None where it may be on the next one."""
    for one in listed:
        id_ = text_inside(one, "id", most=21) or ""
        if _ID.fullmatch(id_) is None:
            return RetryLater("lookup: answer_unreadable")
        if int(id_) < since:
            return NotThere()
        if _is_ours(one, key, text, bot):
            return Delivered(id_)
    return None


def _is_ours(one: object, key: str, text: str, bot: str | None) -> bool:
    nonce = text_inside(one, "nonce")
    if nonce is not None:
        return nonce == nonce_of(key)
    is_bots = inside(one, "author", "bot") is True and inside(one, "webhook_id") is None
    if bot is not None and text_inside(one, "author", "id") != bot:
        return False
    said = inside(one, "content")
    return is_bots and isinstance(said, str) and letters_of(said) == letters_of(text)


channel = Discord()
