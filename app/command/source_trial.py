"""A look at one source, in plain words: at its configuration, its secrets, and the service behind its own URL.

Nothing that is sent is kept there: it is rightly signed and holds nothing, or it is not signed and has to be refused.
"""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal

from app import VERSION
from app.domain.webhook import Result, Trial

if TYPE_CHECKING:
    import aiohttp

    from app.core import Intake
    from app.providers import AnyProvider
    from app.settings import Settings

SECONDS_MAX: Final = 10.0
_ANSWER_BYTES_MAX: Final = 1 << 16
_JSON: Final = {"content-type": "application/json"}
_REDIRECTIONS: Final = (301, 302, 303, 307, 308)
# How far ahead the clock's next time is looked for.
_AHEAD: Final = (timedelta(hours=2), timedelta(days=8), timedelta(days=400), timedelta(days=3000))
_TIMES_MAX: Final = 1000
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that was looked at. A `note` is no fault, and may be one where it is not meant."""

    what: Literal["good", "note", "wrong"]
    words: str


async def look_at(intake: "Intake", settings: "Settings", now: datetime) -> list[Found]:
    """Everything that there is to say of a source. Words name pointers and never what they hold."""
    found = [*_of_secrets(intake), *_of_replies(intake)]
    if intake.provider.is_timed:
        return [*found, *_of_times(intake, now)]
    found += _of_url(intake, settings)
    return [*found, await _of_service(intake, now)]


def _of_secrets(intake: "Intake") -> list[Found]:
    missing = intake.missing()
    if missing:
        words = "{} leads to nothing here: bring the variable or the file; until then all is answered 503"
        return [Found("wrong", words.format(pointer)) for pointer in missing]
    count = sum(len(pointers) for pointers in intake.pointers.values())
    return [Found("good", f"its secrets are here ({count})")] if count else []


def _of_replies(intake: "Intake") -> list[Found]:
    source = intake.settings
    if source.reply_to is None:
        words = "it has no reply_to: a message without a destination is refused at the seal"
        return [Found("note", words)]
    words = f"it brings turns to the queue {source.queue}, and answers go to {source.reply_to}"
    return [Found("good", words)]


def _of_url(intake: "Intake", settings: "Settings") -> list[Found]:
    if settings.server.public_url is None:
        words = f"server.public_url is not set, and no provider gets to {intake.public_url}"
        return [Found("note", words)]
    if settings.server.public_url.startswith("http://"):
        words = "server.public_url begins with http://: many providers take https:// alone"
        return [Found("note", words)]
    return []


def _of_times(intake: "Intake", now: datetime) -> list[Found]:
    for ahead in _AHEAD:
        items = intake.provider.due(
            config=intake.config, after=now, now=now + ahead, items_max=_TIMES_MAX
        )
        if items:
            times = ", ".join(item.keys[0] for item in items[:_SHOWN])
            words = "the clock asks it, in a process with the role sweep; " + (
                f"next: {times}" if len(items) < _TIMES_MAX else "it fires often"
            )
            return [Found("good", words)]
    return [Found("note", "the clock asks it, and it does not fire for years")]


async def _of_service(intake: "Intake", now: datetime) -> Found:
    """Send it something that is not signed, and then something that is, by the way that providers go."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=SECONDS_MAX)
    agent = {"User-Agent": f"Sinksweep/{VERSION}"}
    url, trial = intake.public_url, intake.trial(now=now)
    try:
        async with aiohttp.ClientSession(timeout=timeout, headers=agent) as http:
            status, code = await _ask(http, url, Trial(_JSON, b"{}"))
            wrong = _wrong(intake, status, code)
            if wrong is not None:
                return wrong
            if trial is None:
                return Found(
                    "good", f"{url} is reached, and refuses what is not signed; {_untried(intake)}"
                )
            status, code = await _ask(http, url, trial)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        words = "look whether the service runs, and where the way there leads"
        return Found("wrong", f"nobody answers at {url} ({type(error).__name__}): {words}")
    if code == "body_unreadable" or status == intake.provider.reply(Result.IGNORED).status:
        return Found("good", f"{url} takes what is signed with its secret; nothing was kept")
    words = "the service holds another secret than this configuration, or something between changes what is sent"
    return Found("wrong", f"{url} {_said(status, code)}: {words}")


def _untried(intake: "Intake") -> str:
    if intake.missing():
        return "without its secret no more can be tried"
    return "only its provider can sign for this kind"


async def _ask(http: "aiohttp.ClientSession", url: str, trial: Trial) -> tuple[int, str]:
    """The status, and the code of a problem of ours; "" where there is none."""
    async with http.post(
        url, data=trial.body, headers=trial.headers, allow_redirects=False
    ) as answer:
        content = await answer.content.read(_ANSWER_BYTES_MAX)
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            document = None
        code = document.get("code") if isinstance(document, dict) else None
        return answer.status, code if isinstance(code, str) else ""


def _wrong(intake: "Intake", status: int, code: str) -> Found | None:
    """What is wrong where something that is not signed was answered like this; None where it was refused for that."""
    provider = intake.provider
    if code == "signature_invalid" or (not code and status == _status(provider, "BAD_SIGNATURE")):
        return None
    if status in _REDIRECTIONS:
        words = "a redirection, and no provider follows one"
    elif code == "source_not_ready" or status == _status(provider, "NOT_READY"):
        words = "the service is not ready for it; look there for a missing secret or public key"
    elif status == HTTPStatus.NOT_FOUND:
        words = f"what answers there is not this service, or knows no source {intake.name}"
    else:
        words = "this service refuses what is not signed, so that what answers there is another one"
    return Found("wrong", f"{intake.public_url} {_said(status, code)}: {words}")


def _status(provider: "AnyProvider", result: str) -> int:
    return provider.reply(Result[result]).status


def _said(status: int, code: str) -> str:
    return f"answered {status} {code}".rstrip()
