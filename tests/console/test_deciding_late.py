"""A page that is behind the times says so, and decides about nothing but what it showed."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from app.engine.expire_holds import expire_holds
from tests.api.conftest import Service
from tests.console.browser import Tab
from tests.console.conftest import address, shown, unlock
from tests.console.deciding import MESSAGES, confirm, decide, events_of, turn_of, waiting
from tests.database import Clock

if TYPE_CHECKING:
    from tests.database import Admin


pytestmark = pytest.mark.timeout(120)


async def test_a_stale_page_says_who_was_faster_and_what_he_decided(
    service: Service, tab: Tab
) -> None:
    sealed = await waiting(service)
    await shown(tab, service, sealed)
    await decide(service, sealed, "reject", comment="not today")
    await tab.fill("#by", "Ada")
    await confirm(tab, "#approve")
    await tab.until("document.querySelector('#alert').innerText")
    alert = await tab.text("#alert")
    for told in ("was not taken", "rejected by Grace on ", "not today"):
        assert told in alert
    assert (await turn_of(service, sealed))["state"] == "cancelled"
    assert tab.faults.pop().startswith("Failed to load resource")


async def test_a_stale_page_decides_nothing_about_what_came_after_it(
    service: Service, tab: Tab
) -> None:
    sealed = await waiting(service)
    await shown(tab, service, sealed)
    await decide(service, sealed, "revise", comment="shorter")
    (turn,) = (await service.claim(queue="support")).json["turns"]
    again = (await service.seal(turn, MESSAGES[:1])).json
    await tab.fill("#by", "Ada")
    await confirm(tab, "#approve")
    await tab.until("document.querySelector('#alert').innerText")
    assert "your decision was not taken" in await tab.text("#alert")
    assert (await turn_of(service, sealed))["state"] == "held"
    # What waits now is shown, and can be decided.
    assert await tab.text("#bound") == again["payload_hash"]
    assert "Message 1 of 1" in await tab.text("#messages")
    await confirm(tab, "#approve")
    await tab.until("document.querySelector('#status').innerText")
    assert (await turn_of(service, sealed))["payload_hash"] == again["payload_hash"]
    assert tab.faults.pop().startswith("Failed to load resource")


async def test_a_decision_that_nobody_answered_is_made_again_and_counts_once(
    service: Service, tab: Tab
) -> None:
    sealed = await waiting(service)
    await shown(tab, service, sealed)
    await tab.fill("#by", "Ada")
    # It is decided, and the answer is lost on its way.
    await tab.send(
        "Fetch.enable", patterns=[{"urlPattern": "*/decision", "requestStage": "Response"}]
    )
    await confirm(tab, "#approve")
    async with asyncio.timeout(10):
        while not tab.paused:
            await asyncio.sleep(0.01)
    await tab.send("Fetch.failRequest", requestId=tab.paused.pop(), errorReason="ConnectionReset")
    await tab.until("document.querySelector('#alert').innerText")
    assert "not known whether it counted" in await tab.text("#alert")
    assert (await turn_of(service, sealed))["hold"]["decision"] == "approve"
    await tab.send("Fetch.disable")
    await confirm(tab, "#approve")
    await tab.until("document.querySelector('#status').innerText")
    assert "approved by Ada" in await tab.text("#status")
    decided = [one for one in await events_of(service, sealed) if one["verb"] == "approve"]
    assert len([one for one in decided if one["message"] is None]) == 1
    tab.faults.clear()


async def test_a_link_about_another_version_says_so(service: Service, tab: Tab) -> None:
    sealed = await waiting(service)
    await tab.open(address(service, {**sealed, "payload_hash": "sha256:" + "0" * 64}))
    await unlock(tab, service)
    await tab.until("document.querySelector('#alert').innerText")
    assert "another version" in await tab.text("#alert")
    assert await tab.text("#bound") == sealed["payload_hash"]


async def test_a_hold_past_its_deadline_is_shown_and_decided(
    service: Service, tab: Tab, admin: "Admin"
) -> None:
    sealed = await waiting(service, hold={"deadline_seconds": 60})
    await Clock(admin).travel(61)
    core = service.core
    await expire_holds(
        core.pool, policies=core.turn_policies, turns_max=9, ids=core.ids, key_seconds=60.0
    )
    await shown(tab, service, sealed)
    assert "past its deadline" in await tab.text("#heading")
    assert "once since then" in await tab.text("#facts")
    await tab.fill("#by", "Ada")
    await confirm(tab, "#approve")
    await tab.until("document.querySelector('#status').innerText")
    assert (await turn_of(service, sealed))["state"] == "sealed"
