"""Kind `teams`: a team's outgoing webhook, which is told what mentions it and shows what it is answered at once.

There is no other way to answer: within seconds, in the response, with a text that says that the message was taken. An
agent that is to say more is a bot, which is kind `teams_bot`.
"""

import json
from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.authenticity import check_hmac, decoded
from app.domain.json_view import read_object
from app.domain.teams import item_of
from app.domain.webhook import Batch, Keys, Reply, Request, Secrets
from app.providers import Options, Provider, Sheet, Signed

_SCHEME = "HMAC "


class TeamsConfig(Options):
    """What is said at once to whoever mentioned the webhook."""

    answer: Annotated[str, Field(min_length=1, max_length=1000)] = "Your message was received."


class Teams(Provider[TeamsConfig]):
    """One outgoing webhook of one team."""

    kind = "teams"
    Config = TeamsConfig
    signed = Signed(headers=("authorization",))
    sheet = Sheet(
        title="Microsoft Teams (outgoing webhook)",
        signature="HMAC-SHA256 over the body, `Authorization: HMAC`",
        key="conversation and `id` of the message",
        conversation="conversation, which is a channel's thread",
        setup="Manage team, Apps, Create an outgoing webhook; the security token is the secret",
    )

    def receive(
        self,
        request: Request,
        *,
        config: TeamsConfig,
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> Batch:
        """Verify, take the message, and say so in the thread."""
        given, shared = [request.header("authorization")], decoded(secrets.active)
        check_hmac(given, request.body, secrets=shared, encoding="base64", prefix=_SCHEME)
        activity = read_object(request.body)
        answer = json.dumps({"type": "message", "text": config.answer}).encode()
        reply = Reply(200, answer, "application/json")
        return Batch((item_of(activity, request.body),), reply)


provider = Teams()
