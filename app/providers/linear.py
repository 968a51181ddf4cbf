"""Kind `linear`: changes of a workspace, and what is asked of an agent in it.

The time of sending stands in the signed body, so a retry is not the same bytes: what is compared leaves it out. The id
of a delivery is not signed; the rest of the body is its second key. `webhookId` is the same for all events of a hook.
"""

import json
from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.authenticity import check_hmac, check_time
from app.domain.json_view import Json, name_at, number_at, read_object, text_at
from app.domain.webhook import Batch, Item, Keys, Refused, Request, Result, Secrets, View, body_key
from app.providers import Options, Provider, Sheet, Signed

_TIME = "webhookTimestamp"
_TEXTS = (
    ("agentActivity", "content", "body"),
    ("agentSession", "comment", "body"),
    ("promptContext",),
    ("data", "body"),
    ("data", "description"),
    ("data", "title"),
    ("agentSession", "issue", "title"),
)


class LinearConfig(Options):
    """How far the time of sending may be from ours; and whose changes are our own echo, by their id."""

    tolerance_seconds: Annotated[int, Field(ge=1, le=86_400)] = 60
    own_actors: Annotated[tuple[str, ...], Field(max_length=20)] = ()


class Linear(Provider[LinearConfig]):
    """One Linear webhook, or the one of an OAuth application."""

    kind = "linear"
    Config = LinearConfig
    signed = Signed(time=True, headers=("linear-signature",))
    has_echoes = True
    keeps = ("linear-event",)
    sheet = Sheet(
        title="Linear",
        signature="HMAC-SHA256 over the body, which has the time in it, `Linear-Signature`",
        key="`Linear-Delivery`, and the body's hash without its time",
        conversation="issue, or an agent's session",
        setup="Settings, API, Webhooks; the signing secret is the secret",
    )

    def receive(
        self,
        request: Request,
        *,
        config: LinearConfig,
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,
    ) -> Batch:
        """Verify, read, and demand that it was sent now."""
        check_hmac([request.header("linear-signature")], request.body, secrets=secrets.active)
        told = read_object(request.body)
        milliseconds = number_at(told, _TIME)
        if milliseconds is None:
            raise Refused(Result.MALFORMED, "timestamp_missing")
        check_time(milliseconds / 1000, now, tolerance_seconds=config.tolerance_seconds)
        compared = json.dumps({**told, _TIME: None}, sort_keys=True).encode()
        id_ = request.header("linear-delivery")
        actor = name_at(told, "actor", "id") or name_at(told, "data", "userId")
        return Batch(
            (
                Item(
                    keys=(id_, body_key(compared)) if id_ else (body_key(compared),),
                    body=request.body,
                    event=_event(told),
                    conversation=_conversation(told),
                    view=View(
                        text=next((text for path in _TEXTS if (text := text_at(told, *path))), ""),
                        sender=actor,
                    ),
                    compared=compared,
                    is_echo=actor != "" and actor in config.own_actors,
                ),
            )
        )


def _event(told: Json) -> str:
    type_, action = text_at(told, "type"), text_at(told, "action")
    return f"{type_}.{action}" if type_ and action else type_ or action or "event"


def _conversation(told: Json) -> tuple[str, ...]:
    is_issue = text_at(told, "type") == "Issue"
    found = (
        name_at(told, "agentSession", "id")
        or name_at(told, "data", "issueId")
        or name_at(told, "data", "issue", "id")
        or (name_at(told, "data", "id") if is_issue else "")
    )
    return (found,) if found else ()


provider = Linear()
