"""What a provider lets one answer with for a while: used while it holds, never after, and shown nowhere."""

import asyncio
import json
import time
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tests.channels.conformance.fakes import answer, http_fake
from tests.providers.samples.discord import PUBLIC
from tests.system.chats import ANN, CANARY, CHANNEL, FORM, TEAM, TEXTS
from tests.system.conversing import (
    Place,
    claimed,
    from_file,
    nothing_is_shown,
    replied,
    says_both,
    seals,
    stage,
)
from tests.system.processes import POLL_SECONDS
from tests.system.rig import Rig

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

CAPABILITY = "capability9k3w"
KEPT = {CAPABILITY: {"inbound.reply"}}
JSON = "application/json"


def seconds() -> int:
    return int(time.time())  # noqa: TID251 - as a provider's clock


async def until(admin: "Admin", what: str, *, count: int) -> None:
    """Wait until so many messages are like this."""
    found = f"select count(*) from sink.outbox where {what}"
    try:
        async with asyncio.timeout(20):
            while await admin.fetchval(found) != count:
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        rows = await admin.fetch("select state, reason, attempts, due_at from sink.outbox")
        raise AssertionError(f"not {what}: {rows}") from None


async def slack_command(rig: Rig, port: int) -> Place:
    """A service that answers commands through their URLs alone, with a command in it."""
    place = await stage(
        rig,
        "slack",
        source=f"secrets = [{from_file(rig, 'signing')}]",
        destination_kind="slack",
        destination=f"""
answer_by = "response_url"
response_hosts = ["127.0.0.1"]
api_url = "http://127.0.0.1:{port}/api"
""",
        token="unused",
    )
    fields = {
        "team_id": TEAM,
        "channel_id": CHANNEL,
        "user_id": ANN,
        "command": "/order",
        "text": "a red one",
        "response_url": f"http://127.0.0.1:{port}/commands/{TEAM}/1/{CAPABILITY}",
        "trigger_id": "398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
    }
    body = urlencode(fields).encode()
    await place.comes_once(body, FORM, seconds(), (b"red", b"tan"))
    return place


async def test_a_command_of_slack_is_answered_through_its_url(rig: Rig, admin: "Admin") -> None:
    limited = answer(429, b"ratelimited", Retry_After="1")
    async with http_fake(limited, answer(200, b"ok")) as fake:
        place = await slack_command(rig, fake.port)
        turn, shown = await claimed(place.service)
        assert turn["inbound"][0]["view"]["text"] == "/order a red one"
        assert CAPABILITY.encode() not in shown
        await says_both(place.service, turn)
        sent = await replied(admin)
        assert [(one["state"], one["receipt"]) for one in sent] == [("delivered", None)] * 2
        assert {one.path for one in fake.requests} == {f"/commands/{TEAM}/1/{CAPABILITY}"}
        assert [one.json for one in fake.requests] == [
            {"response_type": "in_channel", "text": text} for text in (TEXTS[0], *TEXTS)
        ]
    await nothing_is_shown(place, admin, kept=KEPT)


async def test_the_url_of_a_command_is_not_used_after_its_time(
    rig: Rig, admin: "Admin", travel: "Travel"
) -> None:
    async with http_fake(answer(200, b"ok")) as fake:
        place = await slack_command(rig, fake.port)
        # The half hour passes before the agent answers.
        await travel(1801)
        turn, _ = await claimed(place.service)
        refused = await seals(place.service, turn, {"text": TEXTS[0]})
        assert refused.status == 422
        (problem,) = refused.json["errors"]
        assert problem["pointer"].startswith("/messages/0/")
        assert problem["code"] == "reply_expired"
        assert fake.requests == []
    await nothing_is_shown(place, admin)


async def test_what_waits_for_longer_than_the_url_holds_is_not_sent_through_it(
    rig: Rig, admin: "Admin", travel: "Travel"
) -> None:
    async with http_fake(answer(429, b"ratelimited", Retry_After="3")) as fake:
        place = await slack_command(rig, fake.port)
        turn, _ = await claimed(place.service)
        await says_both(place.service, turn)
        await until(admin, "state = 'pending' and attempts = 1", count=1)
        await travel(1801)
        # The next one waits behind it, for a person.
        await until(admin, "state = 'dead' and reason = 'reply_expired'", count=1)
        assert len(fake.requests) == 1
    await nothing_is_shown(place, admin, kept=KEPT)


async def test_an_interaction_of_discord_is_answered_by_follow_ups(
    rig: Rig, admin: "Admin"
) -> None:
    app, guild, channel, user = (
        "845027738276462632", "197038439483310086", "199737254929760256", "53908232506183680",
    )  # fmt: skip
    ids = ["1334385199974967042", "1334385199974967043"]
    limited = {"message": "You are being rate limited.", "retry_after": 0.3, "global": False}
    good = [answer(200, {"id": id_, "channel_id": channel}) for id_ in ids]
    async with http_fake(answer(429, limited, Retry_After="1"), *good) as fake:
        place = await stage(
            rig,
            "discord",
            source=f'public_keys = ["{PUBLIC}"]',
            destination_kind="discord",
            destination=f"""
answer_by = "interaction"
api_url = "http://127.0.0.1:{fake.port}/api/v10"
""",
            token="unused",
        )
        now = seconds()
        interaction = {
            "id": str((now * 1000 - 1_420_070_400_000) << 22),
            "application_id": app,
            "type": 2,
            "token": CAPABILITY,
            "guild_id": guild,
            "channel_id": channel,
            "channel": {"id": channel, "type": 0},
            "member": {"user": {"id": user, "username": "ann"}},
            "data": {
                "id": "771825006014889984",
                "name": "order",
                "type": 1,
                "options": [{"type": 3, "name": "colour", "value": "red"}],
            },
            "version": 1,
        }
        body = json.dumps(interaction).encode()
        await place.comes_once(body, JSON, now, (b'"red"', b'"tan"'))
        turn, shown = await claimed(place.service)
        assert CAPABILITY.encode() not in shown
        view = turn["inbound"][0]["view"]
        assert (view["text"], view["sender"]) == ("/order colour:red", user)
        assert view["conversation"] == f"chat:{guild}/{channel}"
        await says_both(place.service, turn)
        sent = await replied(admin)
        assert [(one["state"], one["receipt"]) for one in sent] == [
            ("delivered", id_) for id_ in ids
        ]
        assert {one.path for one in fake.requests} == {f"/api/v10/webhooks/{app}/{CAPABILITY}"}
        said = [json.loads(one.body)["content"] for one in fake.requests]
        assert said == [TEXTS[0], *TEXTS]
    await nothing_is_shown(place, admin, kept=KEPT)


async def test_a_reply_token_of_line_is_used_once(rig: Rig, admin: "Admin") -> None:
    user = "U4af4980629" + "0" * 22
    spent = answer(400, {"message": "Invalid reply token"})
    good = [answer(200, {"sentMessages": [{"id": f"46123096684206489{n}"}]}) for n in (7, 8)]
    async with http_fake(good[0], spent, good[1]) as fake:
        place = await stage(
            rig,
            "line",
            source=f"secrets = [{from_file(rig, 'signing')}]",
            destination_kind="line",
            destination=f"""
token = {from_file(rig, "token")}
answer_by = "reply_token"
api_url = "http://127.0.0.1:{fake.port}"
""",
            token=f"{CANARY}-token",
        )
        event = {
            "type": "message",
            "mode": "active",
            "timestamp": seconds() * 1000,
            "source": {"type": "user", "userId": user},
            "webhookEventId": "01FZ74A0TDDPYRVKNK77XKC3ZR",
            "deliveryContext": {"isRedelivery": False},
            "replyToken": CAPABILITY,
            "message": {"id": "444573844083572737", "type": "text", "text": "a waffle maker?"},
        }
        body = json.dumps({"destination": "U" + "1" * 32, "events": [event]}).encode()
        await place.comes_once(body, JSON, seconds(), (b"waffle", b"coffee"))
        turn, shown = await claimed(place.service)
        assert CAPABILITY.encode() not in shown
        assert turn["inbound"][0]["view"]["conversation"] == f"chat:user/{user}"
        await says_both(place.service, turn)
        sent = await replied(admin)
        assert [(one["state"], one["receipt"]) for one in sent] == [
            ("delivered", f"46123096684206489{n}") for n in (7, 8)
        ]
        bearers = {one.headers["authorization"] for one in fake.requests}
        assert bearers == {f"Bearer {CANARY}-token"}
        texts = [{"type": "text", "text": text} for text in TEXTS]
        # The token was taken for the first; what it is not good for any more is pushed.
        assert (fake.requests[0].path, fake.requests[-1].path) == (
            "/v2/bot/message/reply",
            "/v2/bot/message/push",
        )
        assert fake.requests[0].json == {"replyToken": CAPABILITY, "messages": texts[:1]}
        assert fake.requests[-1].json == {"to": user, "messages": texts[1:]}
    await nothing_is_shown(place, admin, kept=KEPT)
