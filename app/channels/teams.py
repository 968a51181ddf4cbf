"""Kind `teams`: a bot answers in the chat or the channel's thread, or the URL of a workflow posts into its own channel.

The place of a conversation's service comes from outside: a token is sent to Microsoft's hosts alone. It is fetched for
each attempt, from the same hosts. Teams knows no key and shows a bot no history: a repeat may be seen twice.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final, Self
from urllib.parse import quote

from pydantic import model_validator

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
from app.domain.content import Reading, read_content
from app.domain.errors import InvalidContent, Problem
from app.domain.outcome import Delivered, Outcome, Rejected, RetryLater, Shut, Unknown
from app.wire.asking import FORM_HEADERS, JSON_HEADERS, Heard, form_body, json_body, token_of
from app.wire.json_answer import text_inside
from app.wire.judging import by_status, throttled, unauthorized
from app.wire.pointer import BaseUrl, Pointer
from app.wire.target import target_within

# A bot's message has about 100 KB, one through a URL 28 KB.
BOT_BYTES_MAX: Final = 100_000
WEBHOOK_BYTES_MAX: Final = 28_000
ATTACHMENTS_MAX: Final = 10
SCOPE: Final = "https://api.botframework.com/.default"
CARD: Final = "application/vnd.microsoft.card.adaptive"

_MESSAGE: Final = frozenset(
    {"text", "textFormat", "summary", "attachments", "attachmentLayout", "suggestedActions"}
    | {"entities", "importance", "channelData"}
)
_CONVERSATION: Final = re.compile(r"(?!\.{1,2}\Z)[!-~]{1,500}")
_TENANT: Final = re.compile(r"[A-Za-z0-9.-]{1,100}")
_APP: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_WORD: Final = re.compile(r"[A-Za-z]{1,60}")
# The certain ones: nothing was posted, and it may be later.
_LATER: Final = frozenset({412, 425, 503})


class TeamsConfig(Options):
    """`app_id` and `password` are the bot's, `tenant` the one that it is registered in; or `webhook_url` points to the
    URL of a workflow, which has one place. `service_hosts` are those that its token may be sent to.
    """

    app_id: str | None = None
    password: Pointer | None = None
    tenant: str = "botframework.com"
    webhook_url: Pointer | None = None
    to: str | None = None
    service_hosts: tuple[str, ...] = (
        "smba.trafficmanager.net",
        "smba.infra.gcc.teams.microsoft.com",
        "smba.infra.gov.teams.microsoft.us",
        "smba.infra.dod.teams.microsoft.us",
    )
    api_url: BaseUrl = "https://smba.trafficmanager.net/teams"
    login_url: BaseUrl = "https://login.microsoftonline.com"

    @model_validator(mode="after")
    def _has_one_way(self) -> Self:
        if (self.app_id is None) != (self.password is None):
            raise ValueError("app_id and password come together")
        if (self.app_id is None) == (self.webhook_url is None):
            raise ValueError("either app_id and password or a webhook_url is needed")
        if self.webhook_url is not None and self.to is not None:
            raise ValueError("webhook_url posts to its own place: it stands alone")
        if not _APP.fullmatch(self.app_id or "x") or not _TENANT.fullmatch(self.tenant):
            raise ValueError("app_id is an id, and tenant an id or a name of a domain")
        if not _CONVERSATION.fullmatch(self.to or "x"):
            raise ValueError("to is the id of a conversation, as in 19:abc@thread.tacv2")
        return self


class Teams(NoLookup):
    """What a bot says, or a workflow."""

    kind: ClassVar = "teams"
    Config = TeamsConfig
    # Of one conversation: 7 in a second, 60 in half a minute, 1800 in an hour; of a bot 50 a second in one tenant.
    limits: ClassVar = Limits(rate_per_second=50, pace_seconds=0.5)
    answers: ClassVar = frozenset({"teams_bot"})
    facts: ClassVar = Facts(
        key="none: a repeat may be seen twice",
        lookup="no: a bot cannot read what it has said",
        receipt="the activity's id; none through a workflow",
    )

    def secrets(self, config: TeamsConfig) -> tuple[str, ...]:
        """The password of the bot, or the URL of the workflow."""
        return tuple(one for one in (config.password, config.webhook_url) if one is not None)

    def check(self, draft: Draft, *, reply: Reply | None, config: TeamsConfig) -> Address:
        """A conversation and where its service is, or the place of the workflow; raises `InvalidContent`."""
        parts = _place(draft, reply, config)
        through_url = "via" in parts
        reading = read_draft(draft)
        reading.only({"text", "attachments"} if through_url else _MESSAGE)
        most = WEBHOOK_BYTES_MAX if through_url else BOT_BYTES_MAX
        text = reading.text("text", most=most)
        attachments = reading.items("attachments", most=ATTACHMENTS_MAX)
        _check_attachments(reading, attachments)
        if not reading.problems and not (text or attachments):
            reading.refuse("text", "text_empty")
        if not reading.problems and len(json_body(reading.content)) > most:
            reading.refuse("text", "text_too_long", f"at most {most} bytes in all")
        reading.check()
        return Address(parts)

    async def send(
        self, message: Outgoing, *, config: TeamsConfig, secrets: Secrets, wire: Wire
    ) -> Outcome:
        """Fetch a token and post the activity, or give the workflow its card."""
        secret = token_of(secrets[0])
        if not isinstance(secret, str):
            return secret
        content = read_content(message.content_type, message.body)
        if message.address.get("via") == "webhook":
            return await _post_card(secret, content, wire=wire)
        service = _service(message.address.get("service_url"), config)
        place = message.at("conversation")
        if service is None:
            # It was sealed with other hosts in the configuration.
            return Rejected("service_host_not_allowed")
        token = await _fetch_token(config, secret, wire=wire)
        if not isinstance(token, str):
            return token
        url = f"{service}/v3/conversations/{quote(place, safe='')}/activities"
        body = json_body({"type": "message", **content})
        headers = {"Authorization": f"Bearer {token}", **JSON_HEADERS}
        masked = replace(wire, hidden=(*wire.hidden, token))
        return _judged(await masked.ask("POST", url, headers=headers, body=body), wire)

    async def probe(self, *, config: TeamsConfig, secrets: Secrets, wire: Wire) -> Probed:
        """Fetch a token, which Microsoft gives to a bot that it knows. A workflow is asked nothing."""
        if config.webhook_url is not None:
            return Probed(good=True, words="it posts to a workflow's URL, which cannot be asked")
        secret = token_of(secrets[0])
        if not isinstance(secret, str):
            return Probed(good=False, words="its password holds what none does")
        token = await _fetch_token(config, secret, wire=wire)
        if isinstance(token, str):
            return Probed(good=True, words="Microsoft gives a token for app_id and password")
        if token.answer is None:
            return unreached(token)
        words = f"Microsoft gives no token for app_id and password ({token.reason})"
        return Probed(good=False, words=f"{words}: look at the bot's registration, and at tenant")


def _place(draft: Draft, reply: Reply | None, config: TeamsConfig) -> dict[str, str]:
    named = draft.recipient or config.to
    if config.webhook_url is not None:
        if named is not None:
            raise InvalidContent(Problem("/to", "to_invalid", "the workflow has one place"))
        return {"via": "webhook"}
    if named is not None:
        if _CONVERSATION.fullmatch(named) is None:
            raise InvalidContent(Problem("/to", "to_invalid", "the id of a conversation"))
        return {"conversation": named}
    answered = "" if reply is None else "".join(reply.parts[:1])
    if reply is None or not is_id(answered):
        raise InvalidContent(Problem("/to", "to_missing"))
    given = text_inside(reply.capability, "service_url", most=500)
    service = None if given is None else _service(given, config)
    # A host that is not one of the configured ones gets nothing: then the worldwide service is asked.
    return {"conversation": answered} | ({"service_url": service} if service else {})


def _service(given: str | None, config: TeamsConfig) -> str | None:
    """Where a conversation's service is: as given, if that is one of the hosts; as configured, if nothing is given."""
    if given is None:
        return config.api_url
    target = target_within(given, config.service_hosts, api_url=config.api_url)
    return given.rstrip("/") if target is not None and "?" not in target.path_and_query else None


def _check_attachments(reading: Reading, attachments: list[object]) -> None:
    if not all(text_inside(one, "contentType") for one in attachments):
        reading.refuse("attachments", "wrong_type", "objects, each with its contentType")


async def _fetch_token(config: TeamsConfig, password: str, *, wire: Wire) -> str | RetryLater:
    """A token for one attempt. Whatever goes wrong here, nothing was posted."""
    form = [("grant_type", "client_credentials"), ("client_id", config.app_id or "")]
    form += [("client_secret", password), ("scope", SCOPE)]
    url = f"{config.login_url}/{config.tenant}/oauth2/v2.0/token"
    heard = await wire.ask("POST", url, headers=FORM_HEADERS, body=form_body(form))
    if not isinstance(heard, Heard):
        return heard if isinstance(heard, RetryLater) else RetryLater(heard.reason)
    token = text_inside(heard.said, "access_token", most=16_000)
    if heard.status == 200 and token is not None and token.isascii() and " " not in token:  # noqa: PLR2004
        return token
    error = _word(text_inside(heard.said, "error"))
    if heard.status == 429:  # noqa: PLR2004
        return throttled("token: http_429", heard.answer, after_seconds=heard.after_seconds)
    if heard.status in {400, 401, 403} and error != "temporarily_unavailable":
        return unauthorized(f"token: {error or f'http_{heard.status}'}", heard.answer)
    return RetryLater(
        f"token: {error or f'http_{heard.status}'}", heard.after_seconds, answer=heard.answer
    )


async def _post_card(url: str, content: Mapping[str, object], *, wire: Wire) -> Outcome:
    """Give a workflow a card with the text, or the cards that the agent made."""
    cards = content.get("attachments") or [_card(content.get("text"))]
    body = json_body({"type": "message", "attachments": cards})
    heard = await wire.ask("POST", url, headers=JSON_HEADERS, body=body)
    if not isinstance(heard, Heard):
        return heard
    if heard.status == 202:  # noqa: PLR2004
        # The workflow has begun; what it does is told to nobody.
        return Delivered(None, heard.answer)
    if heard.status in {404, 410}:
        return RetryLater("webhook_gone", counted=False, answer=heard.answer, shut=Shut.GONE)
    if heard.status in {401, 403}:
        return unauthorized(f"http_{heard.status}", heard.answer)
    return by_status(heard.exchange, heard.answer, now=wire.now)


def _card(text: object) -> dict[str, object]:
    body = [{"type": "TextBlock", "text": text, "wrap": True}]
    schema = "http://adaptivecards.io/schemas/adaptive-card.json"
    card = {"$schema": schema, "type": "AdaptiveCard", "version": "1.4", "body": body}
    return {"contentType": CARD, "contentUrl": None, "content": card}


def _judged(heard: Heard | RetryLater | Unknown, wire: Wire) -> Outcome:
    if not isinstance(heard, Heard):
        return heard
    answer, error = heard.answer, _word(text_inside(heard.said, "error", "code"))
    if heard.status in {200, 201}:
        id_ = text_inside(heard.said, "id")
        return Delivered(id_, answer) if id_ else Unknown("answer_unreadable", answer)
    reason = error or f"http_{heard.status}"
    match heard.status:
        case 202:
            return Delivered(text_inside(heard.said, "id"), answer)
        case 429:
            # Nearly always that of one conversation.
            return throttled(reason, answer, after_seconds=heard.after_seconds, alone=True)
        case 401:
            return unauthorized(reason, answer)
        case status if status in _LATER:
            return RetryLater(reason, heard.after_seconds, answer=answer)
        case 400 | 403 | 404 | 413:
            return Rejected(reason, answer)
        case _:
            return by_status(heard.exchange, answer, now=wire.now)


def _word(code: str | None) -> str | None:
    """A code of Microsoft's as a word: BotNotInConversationRoster, invalid_client."""
    if code is None or _WORD.fullmatch(code.replace("_", "")) is None:
        return None
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", code).lower()


channel = Teams()
