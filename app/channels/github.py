"""Kind `github`: a comment on the issue or the pull request that is answered.

GitHub drops no repeat: each comment ends in a mark that no reader sees and that holds our key, by which it is found
again. A 403 is a limit, a permission or a locked issue: headers and words tell which.
"""

import re
from datetime import UTC, timedelta
from typing import ClassVar, Final
from urllib.parse import urlencode

from pydantic import field_validator

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
    read_draft,
    unreached,
)
from app.domain.content import read_content
from app.domain.errors import InvalidContent, Problem
from app.domain.outcome import Delivered, Found, NotThere, Outcome, Rejected, RetryLater, Unknown
from app.wire.asking import JSON_HEADERS, Heard, json_body, token_of
from app.wire.json_answer import inside, json_list, text_inside
from app.wire.judging import by_status, not_found_out, throttled, unauthorized
from app.wire.pointer import BaseUrl, Pointer

BODY_MAX: Final = 65_536
# The mark and the empty line before it.
MARK_MAX: Final = 336
LOOKUP_BYTES_MAX: Final = 8 << 20
LOOKUP_PAGE: Final = 100
LOOKUP_PAGES_MAX: Final = 5
# GitHub's clock and the database's may differ by so much.
SKEW: Final = timedelta(seconds=60)
# What is to be waited for where GitHub names no time.
WAIT_SECONDS: Final = 60.0
WAIT_SECONDS_MAX: Final = 86_400.0

_PLACE: Final = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9_-]{0,100}/(?!\.{1,2}[#/])[A-Za-z0-9._-]{1,100})[#/]([1-9][0-9]{0,11})"
)
_API: Final = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
_LIMIT: Final = re.compile(r"rate limit|abuse detection|submitted too quickly", re.IGNORECASE)
_NO_RIGHT: Final = re.compile(
    r"resource not accessible by|account was suspended|saml enforcement|ip allow list",
    re.IGNORECASE,
)


class GithubConfig(Options):
    """`token` is that of a person, of an app's installation, or fine-grained; `to` is as in `acme/tool#12`."""

    token: Pointer
    to: str | None = None
    api_url: BaseUrl = "https://api.github.com"

    @field_validator("to")
    @classmethod
    def _is_a_place(cls, value: str | None) -> str | None:
        if value is not None and _PLACE.fullmatch(value) is None:
            raise ValueError("to is an issue or a pull request, as in acme/tool#12")
        return value


class Github:
    """What an account writes below issues and pull requests."""

    kind: ClassVar = "github"
    Config = GithubConfig
    # 80 comments a minute and 500 an hour; a second between two, and one at a time, is what GitHub asks for.
    limits: ClassVar = Limits(rate_per_second=1, concurrency_max=1)
    answers: ClassVar = frozenset({"github"})
    lookup_after_seconds: ClassVar[float | None] = 5.0
    facts: ClassVar = Facts(
        key="in an unseen mark at the end of the comment; GitHub drops no repeat",
        lookup="yes",
        receipt="the comment's id",
    )

    def secrets(self, config: GithubConfig) -> tuple[str, ...]:
        """The token."""
        return (config.token,)

    def check(self, draft: Draft, *, reply: Reply | None, config: GithubConfig) -> Address:
        """A repository and a number in it; raises `InvalidContent`."""
        parts = _place(draft, reply, config)
        reading = read_draft(draft)
        reading.only({"text", "body"})
        name = "body" if "body" in reading.content else "text"
        reading.text(name, most=BODY_MAX - MARK_MAX, required=True)
        if {"body", "text"} <= set(reading.content):
            reading.refuse("text", "field_not_allowed", "body or text, not both")
        reading.check()
        return Address(parts)

    async def send(
        self, message: Outgoing, *, config: GithubConfig, secrets: Secrets, wire: Wire
    ) -> Outcome:
        """Write the comment."""
        headers = _headers(secrets)
        if isinstance(headers, RetryLater):
            return headers
        content = read_content(message.content_type, message.body)
        said = str(content.get("body", content.get("text")))
        body = json_body({"body": f"{said}\n\n{mark_of(message.key)}"})
        heard = await wire.ask(
            "POST", _comments(message, config), headers={**headers, **JSON_HEADERS}, body=body
        )
        return _judged(heard, wire)

    async def lookup(
        self, message: Outgoing, *, config: GithubConfig, secrets: Secrets, wire: Wire
    ) -> Found:
        """Read what was written since the first attempt, and look for the mark."""
        headers = _headers(secrets)
        if isinstance(headers, RetryLater):
            return headers
        since = (message.first_attempted_at - SKEW).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        mark = mark_of(message.key)
        for page in range(1, LOOKUP_PAGES_MAX + 1):
            query = urlencode({"since": since, "per_page": LOOKUP_PAGE, "page": page})
            url = f"{_comments(message, config)}?{query}"
            heard = await wire.ask("GET", url, headers=headers, answer_bytes_max=LOOKUP_BYTES_MAX)
            listed = json_list(heard.exchange) if isinstance(heard, Heard) else None
            if not isinstance(heard, Heard) or heard.status != 200 or listed is None:  # noqa: PLR2004
                return not_found_out(_judged(heard, wire))
            for one in listed:
                body, id_ = inside(one, "body"), text_inside(one, "id", most=32)
                if not isinstance(body, str) or id_ is None:
                    return RetryLater("lookup: answer_unreadable", answer=heard.answer)
                # Whoever quotes it writes more below.
                if body.rstrip().endswith(mark):
                    return Delivered(id_)
            if len(listed) < LOOKUP_PAGE:
                return NotThere()
        return Unknown("lookup_incomplete", ours=True)

    async def probe(self, *, config: GithubConfig, secrets: Secrets, wire: Wire) -> Probed:
        """Ask GitHub for the limits of the token, which every kind of token may."""
        headers = _headers(secrets)
        if isinstance(headers, RetryLater):
            return NO_TOKEN
        heard = await wire.ask("GET", f"{config.api_url}/rate_limit", headers=headers)
        if not isinstance(heard, Heard):
            return unreached(heard)
        left = text_inside(heard.said, "resources", "core", "remaining")
        if heard.status == 200 and left is not None:  # noqa: PLR2004
            words = f"GitHub knows its token, which has {left} requests left in this hour"
            return Probed(good=True, words=words)
        words = f"GitHub does not take its token ({heard.status}): look at the token's settings"
        return Probed(good=False, words=words)


def _place(draft: Draft, reply: Reply | None, config: GithubConfig) -> dict[str, str]:
    named = draft.recipient or config.to
    if named is None:
        answered = () if reply is None else reply.parts
        found = _PLACE.fullmatch("#".join(answered)) if len(answered) == 2 else None  # noqa: PLR2004
        code, detail = "to_missing", ""
    else:
        found = _PLACE.fullmatch(named)
        code, detail = "to_invalid", "an issue or a pull request, as in acme/tool#12"
    if found is None:
        raise InvalidContent(Problem("/to", code, detail))
    return {"repository": found[1], "number": found[2]}


def mark_of(key: str) -> str:
    """What a comment ends in: a comment of HTML, which GitHub shows to nobody."""
    return f"<!-- sinksweep:{key.replace('>', '')} -->"


def _comments(message: Outgoing, config: GithubConfig) -> str:
    repository, number = message.at("repository"), message.at("number")
    return f"{config.api_url}/repos/{repository}/issues/{number}/comments"


def _headers(secrets: Secrets) -> dict[str, str] | RetryLater:
    token = token_of(secrets[0])
    if isinstance(token, RetryLater):
        return token
    return {"Authorization": f"Bearer {token}", **_API}


def _judged(heard: Heard | RetryLater | Unknown, wire: Wire) -> Outcome:
    if not isinstance(heard, Heard):
        return heard
    answer, words = heard.answer, text_inside(heard.said, "message", most=2000) or ""
    if heard.status == 201:  # noqa: PLR2004
        id_ = text_inside(heard.said, "id", most=32)
        return Delivered(id_, answer) if id_ else Unknown("answer_unreadable", answer)
    spent = heard.header("x-ratelimit-remaining") == "0"
    is_limit = heard.after_seconds is not None or spent or _LIMIT.search(words) is not None
    if heard.status == 429 or (heard.status in {403, 422} and is_limit):  # noqa: PLR2004
        after = heard.after_seconds
        if after is None and spent:
            after = _until_reset(heard, wire)
        after = WAIT_SECONDS if after is None else after
        return throttled("rate_limited", answer, after_seconds=after)
    if heard.status == 403 and _NO_RIGHT.search(words):  # noqa: PLR2004
        return unauthorized("no_right", answer)
    if heard.said is not None and heard.status in {403, 404, 410, 422}:
        reasons = {403: "forbidden", 404: "not_found", 410: "issues_disabled", 422: "refused"}
        return Rejected(reasons[heard.status], answer)
    return by_status(heard.exchange, answer, now=wire.now)


def _until_reset(heard: Heard, wire: Wire) -> float | None:
    """The seconds until the hour of the limit is over."""
    reset = heard.header("x-ratelimit-reset") or ""
    if not reset.isascii() or not reset.isdigit() or len(reset) > 12:  # noqa: PLR2004
        return None
    return min(max(int(reset) - wire.now.timestamp(), 0.0), WAIT_SECONDS_MAX)


channel = Github()
