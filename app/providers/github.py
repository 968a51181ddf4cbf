"""Kind `github`: the events of a repository, an organization or an App, as JSON or as a form.

The id of a delivery is not signed, so the body's hash is its second key. A delivery that is sent again by hand has its
first id, and is a duplicate.
"""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.authenticity import check_hmac, hmac_of
from app.domain.form import read_form, text_of
from app.domain.json_view import Json, at, name_at, read_object, text_at, time_at
from app.domain.webhook import (
    Attachment,
    Batch,
    Item,
    Keys,
    Refused,
    Request,
    Result,
    Secrets,
    Trial,
    View,
    body_key,
)
from app.providers import Options, Provider, Sheet, Signed

_FORM = "application/x-www-form-urlencoded"
_PREFIX = "sha256="
# What an event is about, what is nearest to what somebody said first.
_SAID = ("comment", "review", "issue", "pull_request", "discussion", "release")
_NUMBERED = ("issue", "pull_request")
_CHECKS = ("check_run", "check_suite", "workflow_run")
_FRESH = ("created", "edited", "opened", "submitted")


class GithubConfig(Options):
    """The logins that we act with, such as `my-app[bot]`: what they do is our own echo."""

    own_logins: Annotated[tuple[str, ...], Field(max_length=20)] = ()


class Github(Provider[GithubConfig]):
    """Webhooks of GitHub, on its site or on a server of one's own."""

    kind = "github"
    Config = GithubConfig
    signed = Signed(headers=("x-hub-signature-256",))
    # GitHub sends no larger event.
    body_bytes_max = 25 << 20
    has_echoes = True
    keeps = ("x-github-event", "x-github-hook-id")
    sheet = Sheet(
        title="GitHub",
        signature="HMAC-SHA256 over the body, `X-Hub-Signature-256`",
        key="`X-GitHub-Delivery`, and the body's hash",
        conversation="repository, and number of the issue, pull request or discussion, or the checked commit",
        setup="Settings, Webhooks; the webhook's secret is the secret; "
        "GitHub tries once: what was missed is sent again from Recent Deliveries",
    )

    def receive(
        self,
        request: Request,
        *,
        config: GithubConfig,
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> Batch:
        """Verify, and read the event out of its JSON or its form."""
        given = [request.header("x-hub-signature-256")]
        check_hmac(given, request.body, secrets=secrets.active, prefix=_PREFIX)
        is_form = request.content_type == _FORM
        payload = _payload(request.body) if is_form else request.body
        try:
            event = read_object(payload)
        except Refused:
            # Its id and its kind stand in the headers: whatever this is, it was signed.
            event = None
        name = request.header("x-github-event")
        if name == "ping":
            return Batch((), ignored={"ping": 1})
        id_ = request.header("x-github-delivery")
        return Batch(
            (
                Item(
                    keys=(id_, body_key(request.body)) if id_ else (body_key(request.body),),
                    body=request.body,
                    content_type=_FORM if is_form else "application/json",
                    event=_event(name, event),
                    conversation=_conversation(event),
                    view=_view(event),
                    dated=_dated(event),
                    is_echo=_is_own(event, config),
                ),
            )
        )

    def trial(
        self,
        *,
        config: GithubConfig,  # noqa: ARG002
        secrets: Secrets,
        now: datetime,  # noqa: ARG002
    ) -> Trial:
        """What it sends itself when a webhook is added."""
        signature = _PREFIX + hmac_of(b"{}", secrets=secrets.active)
        told = {"x-github-event": "ping", "x-hub-signature-256": signature}
        return Trial({"content-type": "application/json", **told}, b"{}")


def _payload(form: bytes) -> bytes:
    payload = text_of(read_form(form), "payload")
    if not payload:
        raise Refused(Result.MALFORMED, "payload_missing")
    return payload.encode()


def _event(name: str, event: Json) -> str:
    action = text_at(event, "action")
    return f"{name}.{action}" if name and action else name or action or "event"


def _conversation(event: Json) -> tuple[str, ...]:
    """The repository and the number that comments are written to. A discussion, and the commit that is checked, have a
    third part: nothing can be written below their numbers.
    """
    repository = text_at(event, "repository", "full_name")
    numbers = (name_at(event, about, "number") for about in _NUMBERED)
    found: tuple[str, ...] = (next((one for one in numbers if one), ""),)
    if not found[0]:
        found = ("discussion", name_at(event, "discussion", "number"))
    if not found[-1]:
        commits = (text_at(event, about, "head_sha") for about in _CHECKS)
        found = ("commit", next((one for one in commits if one), ""))
    return (repository, *found) if repository and found[-1] else ()


def _view(event: Json) -> View:
    about = [at(event, name) for name in _SAID if at(event, name) is not None]
    bodies = (text_at(one, name) for one in about for name in ("body", "title", "name"))
    commit = text_at(event, "head_commit", "message")
    url = next((text_at(one, "html_url") for one in about if text_at(one, "html_url")), "")
    return View(
        text=next((text for text in bodies if text), commit),
        sender=text_at(event, "sender", "login"),
        attachments=(Attachment(kind="page", url=url),) if url else (),
    )


def _dated(event: Json) -> datetime | None:
    """When something was said or opened; other events are about things that may be old."""
    if text_at(event, "action") not in _FRESH:
        return None
    about = next((at(event, name) for name in _SAID if at(event, name) is not None), None)
    times = (time_at(about, name) for name in ("updated_at", "submitted_at", "created_at"))
    return next((time for time in times if time), None)


def _is_own(event: Json, config: GithubConfig) -> bool:
    login = text_at(event, "sender", "login").casefold()
    return login != "" and login in {own.casefold() for own in config.own_logins}


provider = Github()
