"""Kind `slack`: a bot posts into the thread that is answered; through a response URL while that holds, if wished.

Slack answers 200 to what it refuses: a message is delivered when the answer says `"ok": true`, and never before. It
drops no repeat, so each message carries its key as metadata, by which it is found again.
"""

import re
from typing import ClassVar, Final, Literal, Self
from urllib.parse import urlencode

from pydantic import model_validator

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
from app.domain.content import read_content
from app.domain.errors import InvalidContent, Problem
from app.domain.outcome import Delivered, Found, NotThere, Outcome, Rejected, RetryLater, Unknown
from app.wire.asking import JSON_HEADERS, Heard, json_body, token_of
from app.wire.json_answer import inside, text_inside
from app.wire.judging import by_status, not_found_out, throttled, unauthorized
from app.wire.pointer import BaseUrl, Pointer
from app.wire.target import target_within

TEXT_MAX: Final = 40_000
MARKDOWN_MAX: Final = 12_000
BLOCKS_MAX: Final = 50
ATTACHMENTS_MAX: Final = 100
LOOKUP_BYTES_MAX: Final = 4 << 20
LOOKUP_PAGES_MAX: Final = 5
# Slack's clock and the database's may differ by so much.
SKEW_SECONDS: Final = 60
METADATA_TYPE: Final = "sinksweep_message"

_MESSAGE: Final = frozenset(
    {"text", "markdown_text", "blocks", "attachments", "mrkdwn", "parse", "link_names"}
    | {"unfurl_links", "unfurl_media", "username", "icon_emoji", "icon_url", "reply_broadcast"}
)
# What only an answer through a URL can say.
_THROUGH_A_URL: Final = frozenset({"response_type", "replace_original", "delete_original"})
_PLACE: Final = re.compile(r"([CDGUW][A-Z0-9]{1,40})(?:/([0-9]{1,20}\.[0-9]{1,10}))?")
_ERROR: Final = re.compile(r"[a-z0-9_]{1,64}")
# Every message is told so, until a person has changed something.
_ACCOUNT: Final = frozenset(
    {"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"}
    | {"missing_scope", "not_allowed_token_type", "no_permission", "org_login_required"}
    | {"ekm_access_denied", "access_denied", "team_access_not_granted", "two_factor_setup_required"}
)
_LATER: Final = frozenset({"service_unavailable", "team_added_to_org", "request_timeout"})
_THROTTLED: Final = frozenset({"ratelimited", "rate_limited", "accesslimited"})
# Documented as done in part, perhaps.
_PERHAPS: Final = frozenset({"internal_error", "fatal_error"})
_SPENT: Final = frozenset({"reply_expired", "expired_url", "used_url"})


class SlackConfig(Options):
    """`token` is a bot's. `webhook_url` points to the URL of an incoming webhook, which has one place.

    `answer_by = "response_url"`: commands and buttons are answered through the URL that came with them, while it holds.
    """

    token: Pointer | None = None
    webhook_url: Pointer | None = None
    to: str | None = None
    answer_by: Literal["message", "response_url"] = "message"
    response_hosts: tuple[str, ...] = ("hooks.slack.com", "hooks.slack-gov.com")
    api_url: BaseUrl = "https://slack.com/api"

    @model_validator(mode="after")
    def _has_one_way(self) -> Self:
        if self.webhook_url is not None and (self.token or self.to or self.answer_by != "message"):
            raise ValueError("webhook_url posts to its own place: it stands alone")
        if self.token is None and self.webhook_url is None and self.answer_by == "message":
            raise ValueError("a token or a webhook_url is needed")
        if self.to is not None and _PLACE.fullmatch(self.to) is None:
            raise ValueError("to is the id of a channel or of a user, as in C0123ABCD")
        return self


class Slack:
    """A workspace, as a bot has it."""

    kind: ClassVar = "slack"
    Config = SlackConfig
    limits: ClassVar = Limits(rate_per_second=5, pace_seconds=1)
    answers: ClassVar = frozenset({"slack"})
    lookup_after_seconds: ClassVar[float | None] = 5.0
    facts: ClassVar = Facts(
        key="kept in the message's metadata; Slack drops no repeat",
        lookup="yes, where the bot may read the history; not for users, nor through URLs",
        receipt="channel and `ts`; none through a URL",
    )

    def secrets(self, config: SlackConfig) -> tuple[str, ...]:
        """The token or the URL of the incoming webhook."""
        return tuple(one for one in (config.token, config.webhook_url) if one is not None)

    def check(self, draft: Draft, *, reply: Reply | None, config: SlackConfig) -> Address:
        """A channel and a thread in it, a response URL, or the place of the webhook; raises `InvalidContent`."""
        address = _address(draft, reply, config)
        reading = read_draft(draft)
        through_url = "via" in address.parts
        reading.only(_MESSAGE | _THROUGH_A_URL if through_url else _MESSAGE)
        text = reading.text("text", most=TEXT_MAX)
        markdown = reading.text("markdown_text", most=MARKDOWN_MAX)
        blocks = reading.items("blocks", most=BLOCKS_MAX)
        attachments = reading.items("attachments", most=ATTACHMENTS_MAX)
        if not reading.problems and not (text or markdown or blocks or attachments):
            reading.refuse("text", "text_empty")
        if markdown and (text or blocks):
            reading.refuse("markdown_text", "field_not_allowed", "not beside text or blocks")
        reading.check()
        return address

    async def send(
        self, message: Outgoing, *, config: SlackConfig, secrets: Secrets, wire: Wire
    ) -> Outcome:
        """Post it as the bot, or to a URL: what ended while it waited is posted as the bot where there is one."""
        content = read_content(message.content_type, message.body)
        via, secret = message.address.get("via"), secrets[0] if secrets else None
        if via == "webhook":
            url = token_of(secret)
            return await _post_to(url, content, wire=wire) if isinstance(url, str) else url
        if via == "response_url":
            outcome = await _respond(message, content, config=config, wire=wire)
            spent = isinstance(outcome, Rejected) and outcome.reason in _SPENT
            if not spent or config.token is None or "channel" not in message.address:
                return outcome
        token = token_of(secret)
        if not isinstance(token, str):
            return token
        said = {name: value for name, value in content.items() if name in _MESSAGE}
        said["channel"] = message.at("channel")
        if "thread_ts" in message.address:
            said["thread_ts"] = message.at("thread_ts")
        said["metadata"] = {"event_type": METADATA_TYPE, "event_payload": {"key": message.key}}
        headers, api = {"Authorization": f"Bearer {token}", **JSON_HEADERS}, config.api_url
        body = json_body(said)
        return _judged(
            await wire.ask("POST", f"{api}/chat.postMessage", headers=headers, body=body), wire
        )

    async def lookup(
        self, message: Outgoing, *, config: SlackConfig, secrets: Secrets, wire: Wire
    ) -> Found:
        """Read what the channel or the thread has got since the first attempt, and look for the key."""
        place, thread = message.address.get("channel", ""), message.address.get("thread_ts")
        if "via" in message.address or not place.startswith(("C", "D", "G")):
            # It may have gone through a URL, and a user is no place to read.
            return Unknown("lookup_impossible", ours=True)
        token = token_of(secrets[0])
        if not isinstance(token, str):
            return token
        oldest = message.first_attempted_at.timestamp() - SKEW_SECONDS
        query = {"channel": place, "oldest": f"{oldest:.6f}", "limit": "200"}
        query |= {"include_all_metadata": "true"} | ({"ts": thread} if thread else {})
        method = "conversations.replies" if thread else "conversations.history"
        for _ in range(LOOKUP_PAGES_MAX):
            url = f"{config.api_url}/{method}?{urlencode(query)}"
            headers = {"Authorization": f"Bearer {token}"}
            heard = await wire.ask("GET", url, headers=headers, answer_bytes_max=LOOKUP_BYTES_MAX)
            if not isinstance(heard, Heard) or inside(heard.said, "ok") is not True:
                return _not_found_out(_judged(heard, wire))
            messages = inside(heard.said, "messages")
            if not isinstance(messages, list):
                return RetryLater("lookup: answer_unreadable", answer=heard.answer)
            for one in messages:
                if inside(one, "metadata", "event_payload", "key") == message.key:
                    return Delivered(_receipt(place, text_inside(one, "ts")), heard.answer)
            cursor = text_inside(heard.said, "response_metadata", "next_cursor", most=1000)
            if cursor is None:
                more = inside(heard.said, "has_more") is True
                return Unknown("lookup_incomplete", ours=True) if more else NotThere()
            query["cursor"] = cursor
        return Unknown("lookup_incomplete", ours=True)

    async def probe(self, *, config: SlackConfig, secrets: Secrets, wire: Wire) -> Probed:
        """Ask Slack whose token it is. A URL is asked nothing: every request to it is a message."""
        if config.token is None:
            return Probed(good=True, words="it posts to URLs alone, which cannot be asked")
        token = token_of(secrets[0])
        if not isinstance(token, str):
            return NO_TOKEN
        headers = {"Authorization": f"Bearer {token}", **JSON_HEADERS}
        heard = await wire.ask("POST", f"{config.api_url}/auth.test", headers=headers, body=b"{}")
        if not isinstance(heard, Heard):
            return unreached(heard)
        if inside(heard.said, "ok") is True:
            who, team = text_inside(heard.said, "user"), text_inside(heard.said, "team")
            words = f"Slack knows its token: {who or 'a bot'} of {team or 'a workspace'}"
            return Probed(good=True, words=words)
        words = f"Slack does not take its token ({_error(heard)}): look at the app's OAuth page"
        return Probed(good=False, words=words)


def _address(draft: Draft, reply: Reply | None, config: SlackConfig) -> Address:
    named = draft.recipient or config.to
    if config.webhook_url is not None:
        if named is not None:
            raise InvalidContent(Problem("/to", "to_invalid", "the webhook has one place"))
        return Address({"via": "webhook"})
    if named is not None:
        found = _PLACE.fullmatch(named)
        if found is None:
            raise InvalidContent(Problem("/to", "to_invalid", "the id of a channel or of a user"))
        place = [one for one in found.groups() if one]
    else:
        place = [] if reply is None else list(reply.parts[1:3])
        place = place if all(map(is_id, place)) else []
    parts = dict(zip(("channel", "thread_ts"), place, strict=False))
    if named is None and config.answer_by == "response_url" and reply is not None:
        if _response_url(reply.capability, config) is not None:
            return Address(
                {**(parts if config.token else {}), "via": "response_url"}, uses_reply=True
            )
        if config.token is None:
            raise InvalidContent(Problem("/to", "reply_expired"))
    if not parts or config.token is None:
        raise InvalidContent(Problem("/to", "to_missing"))
    return Address(parts)


def _response_url(capability: object, config: SlackConfig) -> str | None:
    """The URL that came with a command, if it is one of Slack's."""
    url = text_inside(capability, "response_url", most=2048)
    if url is None or target_within(url, config.response_hosts, api_url=config.api_url) is None:
        return None
    return url


async def _respond(
    message: Outgoing, content: dict[str, object], *, config: SlackConfig, wire: Wire
) -> Outcome:
    """Answer through the URL that came with a command, for all to see unless the agent says otherwise."""
    url = _response_url(message.reply, config)
    if url is None:
        return Rejected("reply_expired")
    return await _post_to(url, {"response_type": "in_channel", **content}, wire=wire)


async def _post_to(url: str, said: dict[str, object], *, wire: Wire) -> Outcome:
    heard = await wire.ask("POST", url, headers=JSON_HEADERS, body=json_body(said))
    if isinstance(heard, Heard) and heard.status == 200 and heard.exchange.excerpt.strip() == b"ok":  # noqa: PLR2004
        return Delivered(None, heard.answer)
    return _judged(heard, wire)


def _judged(heard: Heard | RetryLater | Unknown, wire: Wire) -> Outcome:
    if not isinstance(heard, Heard):
        return heard
    if inside(heard.said, "ok") is True and heard.status // 100 == 2:  # noqa: PLR2004
        channel, ts = text_inside(heard.said, "channel"), text_inside(heard.said, "ts")
        return Delivered(_receipt(channel, ts), heard.answer)
    error, answer = _error(heard), heard.answer
    if error in _THROTTLED:
        return throttled(error, answer, after_seconds=heard.after_seconds)
    if error in _ACCOUNT:
        return unauthorized(error, answer)
    if error in _LATER:
        return RetryLater(error, heard.after_seconds, answer=answer)
    if error in _PERHAPS:
        return Unknown(error, answer)
    if error is None or heard.status == 429 or heard.status >= 500:  # noqa: PLR2004
        return by_status(heard.exchange, answer, now=wire.now)
    return Rejected(error, answer)


def _error(heard: Heard) -> str | None:
    """Slack's word for what is wrong: in the object, or all that a URL answers."""
    if inside(heard.said, "ok") is False:
        word = text_inside(heard.said, "error") or ""
        return word if _ERROR.fullmatch(word) else "refused"
    word = heard.exchange.excerpt.decode(errors="replace").strip()
    return word if heard.status // 100 == 4 and _ERROR.fullmatch(word) else None  # noqa: PLR2004


def _not_found_out(outcome: Outcome) -> Found:
    if isinstance(outcome, RetryLater) and outcome.reason == "missing_scope":
        # The token may post and not read: nobody can be asked.
        return Unknown("lookup: missing_scope", outcome.answer, ours=True)
    return not_found_out(outcome)


def _receipt(channel: str | None, ts: str | None) -> str | None:
    return f"{channel}:{ts}" if channel and ts else None


channel = Slack()
