"""Kind `teams_bot`: what is said to a bot of the Bot Framework, in Teams and in its other channels.

A token says who speaks, and neither the body nor its hash is in it: TLS alone protects the rest. The URL to answer at
must be the same in the body and in the token, or answers could be led astray with what authorizes them. The keys of
tokens are fetched outside of requests.
"""

from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import Field

from app.domain.authenticity import equal
from app.domain.bearer_token import check_token, read_keys
from app.domain.json_view import Json, name_at, read_object, text_at
from app.domain.teams import MESSAGE, item_of
from app.domain.webhook import Batch, Capability, Keys, Refused, Reply, Request, Result, Secrets
from app.providers import Options, Provider, Sheet, Signed
from app.wire.client import GuardedClient
from app.wire.exchange import Answered
from app.wire.json_answer import json_object
from app.wire.pointer import Url
from app.wire.target import InvalidTarget, parse_target

_ISSUERS: Final = {
    "public": "https://api.botframework.com",
    "us_government": "https://api.botframework.us",
}
_METADATA: Final = {
    "public": "https://login.botframework.com/v1/.well-known/openidconfiguration",
    "us_government": "https://login.botframework.azure.us/v1/.well-known/openidconfiguration",
}
_ANSWER_BYTES_MAX: Final = 1 << 20
_FETCH_SECONDS: Final = 10.0
_ANSWER_WITHIN: Final = timedelta(days=30)
_OK: Final = 200
_INVOKED: Final = Reply(200, b"{}", "application/json")


class TeamsBotConfig(Options):
    """The bot's app id; its cloud; where keys are listed, if elsewhere; and how far clocks may be apart."""

    app_id: Annotated[str, Field(min_length=1, max_length=100)]
    cloud: Literal["public", "us_government"] = "public"
    metadata_url: Url | None = None
    tolerance_seconds: Annotated[int, Field(ge=0, le=3600)] = 300


class TeamsBot(Provider[TeamsBotConfig]):
    """One bot."""

    kind = "teams_bot"
    Config = TeamsBotConfig
    signed = Signed(body=False, time=True, headers=("authorization",), fields=("serviceUrl",))
    secrets_min = 0
    has_fetched_keys = True
    has_echoes = True
    sheet = Sheet(
        title="Microsoft Teams (bot)",
        signature="a token (RS256) for `app_id`, of fetched keys; the body is not signed but for its `serviceUrl`",
        key="conversation and `id` of the message; type and time of what happens to one",
        conversation="conversation, which is a chat or a channel's thread",
        setup="Azure Bot, Configuration, Messaging endpoint; the Microsoft App ID is `app_id`",
    )

    def receive(
        self,
        request: Request,
        *,
        config: TeamsBotConfig,
        secrets: Secrets,  # noqa: ARG002
        keys: Keys | None,
        now: datetime,
    ) -> Batch:
        """Check the token and whom it is for, then take the activity."""
        claims, key = check_token(
            request.header("authorization"),
            keys=keys,
            now=now,
            tolerance_seconds=config.tolerance_seconds,
        )
        for name, wanted in (("iss", _ISSUERS[config.cloud]), ("aud", config.app_id)):
            if not equal(text_at(claims, name).encode(), wanted.encode()):
                raise Refused(Result.BAD_SIGNATURE, "token_of_somebody_else")
        activity = read_object(request.body)
        channel = text_at(activity, "channelId")
        if key.endorsements and channel not in key.endorsements:
            raise Refused(Result.BAD_SIGNATURE, "channel_not_endorsed")
        service = text_at(claims, "serviceurl") or text_at(claims, "serviceUrl")
        if not service or service != text_at(activity, "serviceUrl"):
            raise Refused(Result.BAD_SIGNATURE, "service_url_wrong")
        item = item_of(
            activity,
            request.body,
            reply=_reply(activity, now),
            is_echo=_is_own(activity, config.app_id),
        )
        # What is invoked waits for an object.
        is_invoked = text_at(activity, "type") == "invoke"
        return Batch((item,), _INVOKED if is_invoked else None)

    async def refresh(self, *, config: TeamsBotConfig, wire: GuardedClient) -> Keys | None:
        """Fetch the list of keys from where the issuer says that it is."""
        told = await _fetched(wire, config.metadata_url or _METADATA[config.cloud])
        return read_keys(await _fetched(wire, text_at(told, "jwks_uri")))


def _reply(activity: Json, now: datetime) -> Capability | None:
    facts = {
        "service_url": text_at(activity, "serviceUrl"),
        "activity_id": name_at(activity, "id") if text_at(activity, "type") == MESSAGE else "",
        "bot": name_at(activity, "recipient", "id"),
        "user": name_at(activity, "from", "id"),
    }
    facts = {name: value for name, value in facts.items() if value}
    return Capability(secrets={}, facts=facts, expires_at=now + _ANSWER_WITHIN)


def _is_own(activity: Json, app_id: str) -> bool:
    """Whether the bot said it: Teams names it by its app id behind a number for its kind."""
    sender = name_at(activity, "from", "id")
    return text_at(activity, "from", "role") == "bot" or sender in (app_id, f"28:{app_id}")


async def _fetched(wire: GuardedClient, url: str) -> Json:
    """The JSON object at an https URL; None where there is none."""
    try:
        target = parse_target(url)
    except InvalidTarget:
        return None
    if target.scheme != "https":
        return None
    ended = await wire.request(
        "GET",
        target,
        headers={},
        timeout_seconds=_FETCH_SECONDS,
        answer_bytes_max=_ANSWER_BYTES_MAX,
        connection_group="keys of teams_bot",
    )
    if not isinstance(ended, Answered) or ended.status != _OK:
        return None
    answer = json_object(ended)
    return None if answer is None else dict(answer)


provider = TeamsBot()
