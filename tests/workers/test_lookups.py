"""What may have arrived is looked for before it is sent again, under one lease, and never the other way round."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from aiohttp import web

from app.domain.model import DraftMessage
from app.domain.seal import message_hash, spell_place
from tests.database import Clock
from tests.engine.stories import Sink
from tests.workers.conftest import OpenCore
from tests.workers.test_deliverer import delivering, until_state

if TYPE_CHECKING:
    from app.workers.deliverer import Deliverer

ADDRESS = '{"channel":"C01"}'


@dataclass(slots=True)
class Workspace:
    """A channel of Slack's. `hears`: posts are kept; `answers`: and answered; `tells`: what a look-up is answered."""

    url: str = ""
    hears: bool = True
    answers: bool = True
    tells: str | None = None
    posts: list[dict[str, Any]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    looked: asyncio.Event = field(default_factory=asyncio.Event)
    may_tell: asyncio.Event = field(default_factory=asyncio.Event)

    async def post(self, request: web.Request) -> web.Response:
        self.calls.append("post")
        if self.hears:
            self.posts.append(await request.json())
        if not self.answers:
            return web.Response(status=500)
        return web.json_response({"ok": True, "channel": "C01", "ts": f"{len(self.posts)}.1"})

    async def history(self, _request: web.Request) -> web.Response:
        self.calls.append("look")
        self.looked.set()
        await self.may_tell.wait()
        if self.tells is not None:
            return web.json_response({"ok": False, "error": self.tells})
        messages = [{"ts": f"{n}.1", **post} for n, post in enumerate(self.posts, 1)]
        return web.json_response({"ok": True, "messages": messages})


@pytest.fixture
async def workspace(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workspace]:
    """A running stand-in for Slack."""
    monkeypatch.setenv("SLACK_TOKEN_OF_TESTS", "xoxb-1")
    slack = Workspace()
    slack.may_tell.set()
    application = web.Application()
    application.router.add_post("/chat.postMessage", slack.post)
    application.router.add_get("/conversations.history", slack.history)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    slack.url = f"http://{host}:{port}"
    yield slack
    await runner.cleanup()


def destination(workspace: Workspace, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "slack",
        "token": "env:SLACK_TOKEN_OF_TESTS",
        "api_url": workspace.url,
        "on_unknown": "lookup",
        "backoff_seconds": 0.0,
        "timeout_seconds": 2.0,
        **changes,
    }


def said(text: str, **changes: Any) -> DraftMessage:
    """A message for the channel."""
    fields: dict[str, Any] = {
        "destination": "crm",
        "recipient": None,
        "conversation": "chat:T/C01",
        "headers": {},
        "content_type": "application/json",
        "body": json.dumps({"text": text}).encode(),
        "delay_seconds": 0.0,
    }
    digest = message_hash(**fields, place=spell_place(ADDRESS, None))
    return DraftMessage(**fields, hash=digest, address=ADDRESS, **changes)


async def attempted(deliverer: "Deliverer", clock: Clock, calls: Sequence[str], count: int) -> None:
    """Take until the workspace was called so often, letting what may show up do so."""
    async with asyncio.timeout(10):
        while len(calls) < count:
            await deliverer.tick()
            await asyncio.sleep(0.01)
            if deliverer.unsettled == 0:
                await clock.travel(10)


@pytest.mark.parametrize("heard", [True, False])
async def test_what_has_arrived_is_not_sent_again_and_what_has_not_is(
    sink: Sink, opening: OpenCore, workspace: Workspace, clock: Clock, *, heard: bool
) -> None:
    turn, _ = await sink.sealed("a", said("hello"))
    workspace.hears, workspace.answers = heard, False
    async with (
        opening({"crm": destination(workspace)}) as core,
        delivering(core) as deliverer,
    ):
        await attempted(deliverer, clock, workspace.calls, 1)
        await deliverer.drain(seconds=5)
        assert await sink.states(turn) == ["pending"]
        # What may be on its way is given time to show up.
        await deliverer.tick()
        assert workspace.calls == ["post"]
        workspace.hears = workspace.answers = True
        await clock.travel(10)
        await until_state(sink, deliverer, turn, "replied")
    assert workspace.calls == (["post", "look"] if heard else ["post", "look", "post"])
    assert len(workspace.posts) == 1
    (message,) = (await sink.look(turn)).messages
    assert message.receipt == "C01:1.1"
    assert message.reason == ("looked_up" if heard else None)


async def test_nothing_is_sent_while_a_look_up_is_open(
    sink: Sink, opening: OpenCore, workspace: Workspace, clock: Clock
) -> None:
    turn, _ = await sink.sealed("a", said("hello"))
    workspace.answers = False
    async with (
        opening({"crm": destination(workspace)}) as core,
        delivering(core) as one,
        delivering(core) as other,
    ):
        await attempted(one, clock, workspace.calls, 1)
        await one.drain(seconds=5)
        await clock.travel(10)
        workspace.may_tell.clear()
        await one.tick()
        await workspace.looked.wait()
        await other.tick()
        assert (one.unsettled, other.unsettled) == (1, 0)
        workspace.may_tell.set()
        await until_state(sink, one, turn, "replied")
    assert workspace.calls == ["post", "look"]


async def test_a_look_up_that_cannot_answer_now_is_made_again_and_nothing_is_sent(
    sink: Sink, opening: OpenCore, workspace: Workspace, clock: Clock
) -> None:
    turn, _ = await sink.sealed("a", said("hello"))
    workspace.answers, workspace.tells = False, "internal_error"
    async with (
        opening({"crm": destination(workspace, attempts_max=3)}) as core,
        delivering(core) as deliverer,
    ):
        await attempted(deliverer, clock, workspace.calls, 3)
        await until_state(sink, deliverer, turn, "undelivered")
    assert workspace.calls == ["post", "look", "look"]
    (message,) = (await sink.look(turn)).messages
    assert (message.state, message.reason) == ("unknown", "gave_up: lookup: internal_error")


async def stuck(
    sink: Sink, deliverer: "Deliverer", workspace: Workspace, clock: Clock
) -> tuple[UUID, UUID]:
    """A message that may have arrived, where nobody may look."""
    turn, (message,) = await sink.sealed("a", said("hello"))
    workspace.answers, workspace.tells = False, "missing_scope"
    await attempted(deliverer, clock, workspace.calls, 2)
    await until_state(sink, deliverer, turn, "undelivered")
    (found,) = (await sink.look(turn)).messages
    assert (found.state, found.reason) == ("unknown", "lookup: missing_scope")
    return turn, message


async def test_where_nobody_may_look_a_person_decides(
    sink: Sink, opening: OpenCore, workspace: Workspace, clock: Clock
) -> None:
    async with (
        opening({"crm": destination(workspace)}) as core,
        delivering(core) as deliverer,
    ):
        turn, message = await stuck(sink, deliverer, workspace, clock)
        workspace.answers = True
        await sink.redrive_messages(message)
        await until_state(sink, deliverer, turn, "replied")
    # It is asked first all the same: a redrive is no reason to say a thing twice.
    assert workspace.calls == ["post", "look", "look", "post"]


async def test_a_redrive_of_what_has_arrived_sends_nothing(
    sink: Sink, opening: OpenCore, workspace: Workspace, clock: Clock
) -> None:
    async with (
        opening({"crm": destination(workspace)}) as core,
        delivering(core) as deliverer,
    ):
        turn, message = await stuck(sink, deliverer, workspace, clock)
        workspace.tells = None
        await sink.redrive_messages(message)
        await until_state(sink, deliverer, turn, "replied")
    assert workspace.calls == ["post", "look", "look"]
    assert len(workspace.posts) == 1


async def test_what_a_worker_did_not_come_back_from_is_looked_for(
    sink: Sink, opening: OpenCore, workspace: Workspace, clock: Clock
) -> None:
    turn, _ = await sink.sealed("a", said("hello"))
    (taken,) = await sink.take()
    key = {"event_payload": {"key": taken.key}}
    workspace.posts.append({"metadata": key})
    await clock.travel(60)
    await sink.sweep_messages()
    await clock.travel(120)
    async with (
        opening({"crm": destination(workspace)}) as core,
        delivering(core) as deliverer,
    ):
        await until_state(sink, deliverer, turn, "replied")
    assert workspace.calls == ["look"]


async def test_messages_of_one_conversation_keep_the_pace_of_their_channel(
    sink: Sink, opening: OpenCore, workspace: Workspace, clock: Clock
) -> None:
    turn, _ = await sink.sealed(
        "a", said("one", pace_seconds=2.0), said("two", pace_seconds=2.0), conversation="chat:T/C01"
    )
    async with (
        opening({"crm": destination(workspace)}) as core,
        delivering(core) as deliverer,
    ):
        for count in (1, 2):
            await deliverer.tick()
            async with asyncio.timeout(5):
                while deliverer.unsettled:
                    await asyncio.sleep(0.005)
            await clock.travel(1.5)
            await deliverer.tick()
            assert (len(workspace.posts), deliverer.unsettled) == (count, 0)
            await clock.travel(0.6)
        await until_state(sink, deliverer, turn, "replied")
    assert [post["text"] for post in workspace.posts] == ["one", "two"]
