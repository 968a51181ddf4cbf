"""What ends within a moment is settled together, where more is on its way; where nothing is, nobody is waited for."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web

from app.engine.settle import settle
from app.workers import deliverer as module
from app.workers import pace
from tests.engine.stories import Sink, draft
from tests.receiver import Receiver, Request, fine
from tests.workers.conftest import OpenCore, destination
from tests.workers.test_deliverer import delivering, until_state


async def test_what_ends_while_another_runs_is_settled_with_it(
    sink: Sink, opening: OpenCore, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []

    async def counting(pool: Any, settlements: Sequence[Any], **more: Any) -> Any:
        batches.append(len(settlements))
        return await settle(pool, settlements, **more)

    async def a_little_later(request: Request) -> web.StreamResponse:
        if request.body == b"later":
            await asyncio.sleep(0.1)
        return await fine(request)

    monkeypatch.setattr(module, "settle", counting)
    _space(monkeypatch, 2.0)
    async with opening({"crm": destination(receiver)}) as core, delivering(core) as deliverer:
        first, _ = await sink.sealed("first", draft("first"))
        await until_state(sink, deliverer, first, "replied")
        receiver.answer = a_little_later
        both, _ = await sink.sealed("both", draft("now", "a"), draft("later", "b"))
        await until_state(sink, deliverer, both, "replied")
    assert batches == [1, 2]


async def test_where_nothing_else_runs_nobody_is_waited_for(
    sink: Sink, opening: OpenCore, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    _space(monkeypatch, 60.0)
    turn, _ = await sink.sealed("a", *(draft(str(n), "c") for n in range(3)), conversation="c")
    began = time.monotonic()
    async with opening({"crm": destination(receiver)}) as core, delivering(core) as deliverer:
        while await sink.state(turn) != "replied":
            if not deliverer.unsettled:
                await deliverer.tick()
            await asyncio.sleep(0.005)
    assert time.monotonic() - began < 30


def _space(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(pace, "SPACE_SECONDS", seconds)
    monkeypatch.setattr(pace, "SPACE_SECONDS_MAX", seconds)
