"""A person follows a link, sees the bytes that wait, and decides about these and no others."""

import asyncio
import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.engine.expire_holds import expire_holds
from tests.api.conftest import STRANGER, Service
from tests.console.browser import Tab
from tests.console.conftest import SCREENS, address, held, shown, unlock
from tests.database import Clock

if TYPE_CHECKING:
    from tests.database import Admin

NOTE = "Over the limit of 100 €"
TEXT = "Dear Ada,\n\nyour money is on its way."
# Numbers that no reader of JSON in a browser keeps as they are.
REFUND = b'{"amount":120.00,"order":12345678901234567890,"why":"broken"}'
MESSAGES: list[dict[str, Any]] = [
    {
        "destination": "mail",
        "to": "ada@example.org",
        "content_type": "text/plain; charset=utf-8",
        "payload_base64": base64.b64encode(TEXT.encode()).decode(),
    },
    {
        "destination": "loopback",
        "headers": {"x-tag": "refund"},
        "delay_seconds": 2,
        "content_type": "application/json",
        "payload_base64": base64.b64encode(REFUND).decode(),
    },
]
FOLLOW_UPS = [{"payload": {"check": "has it arrived?"}, "delay_seconds": 259_200, "key": "check-1"}]

pytestmark = pytest.mark.timeout(120)


async def waiting(service: Service, **fields: Any) -> dict[str, Any]:
    return await held(
        service, MESSAGES, **{"hold": {"note": NOTE}, "follow_ups": FOLLOW_UPS, **fields}
    )


async def confirm(tab: Tab, button: str) -> None:
    await tab.click(button)
    await tab.until("document.querySelector('#sure').open")
    await tab.click("#sure-yes")
    await tab.until("!document.querySelector('#sure').open")


async def turn_of(service: Service, sealed: dict[str, Any]) -> dict[str, Any]:
    turn: dict[str, Any] = (await service.get(f"/v1/turns/{sealed['turn']}")).json
    return turn


async def bodies_of(service: Service, sealed: dict[str, Any]) -> list[bytes]:
    answer = await service.get(f"/v1/turns/{sealed['turn']}/set")
    return [base64.b64decode(one["payload_base64"]) for one in answer.json["messages"]]


async def events_of(service: Service, sealed: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = (await service.get(f"/v1/turns/{sealed['turn']}/events")).json[
        "items"
    ]
    return events


async def decide(service: Service, sealed: dict[str, Any], decision: str, **fields: Any) -> None:
    body = {"decision": decision, "payload_hash": sealed["payload_hash"], "by": "Grace", **fields}
    path = f"/v1/turns/{sealed['turn']}/decision"
    answer = await service.post(path, body, scope="approve")
    assert answer.status == 200, answer.body


async def test_what_waits_is_shown_with_all_that_will_leave(service: Service, tab: Tab) -> None:
    sealed = await waiting(service, order="strict")
    await shown(tab, service, sealed)
    text = await tab.text()
    assert "A reply waits for your decision" in text
    for told in (NOTE, "ada@example.org", "support", TEXT, "x-tag: refund", "2 seconds", "check-1"):
        assert told in text
    for told in ('"amount": 120.00', '"order": 12345678901234567890', "has it arrived?", "3 days"):
        assert told in text
    assert "Europe/Paris" in await tab.text("#facts")
    assert "seal → held" in await tab.text("#story")
    assert await tab.text("#bound") == sealed["payload_hash"]
    assert await tab.text("#alert") == ""


async def test_it_is_approved_as_it_was_shown(service: Service, tab: Tab) -> None:
    sealed = await waiting(service)
    await shown(tab, service, sealed)
    await tab.fill("#by", "Ada L.")
    await tab.fill("#comment", "go on")
    await confirm(tab, "#approve")
    await tab.until("document.querySelector('#status').innerText")
    assert "approved by Ada L." in await tab.text("#status")
    turn = await turn_of(service, sealed)
    assert (turn["state"], turn["payload_hash"]) == ("sealed", sealed["payload_hash"])
    hold = turn["hold"]
    assert (hold["decision"], hold["decided_by"], hold["comment"]) == ("approve", "Ada L.", "go on")
    assert await bodies_of(service, sealed) == [TEXT.encode(), REFUND]
    assert "It was approved" in await tab.text("#heading")
    assert await tab.run("document.querySelector('#decide').hidden")


async def test_nothing_is_decided_before_the_second_question(service: Service, tab: Tab) -> None:
    sealed = await waiting(service)
    await shown(tab, service, sealed)
    await tab.fill("#by", "Ada")
    await tab.click("#approve")
    await tab.until("document.querySelector('#sure').open")
    assert "2 messages will be sent" in await tab.text("#sure")
    await tab.press("Escape", code=27)
    await tab.until("!document.querySelector('#sure').open")
    await tab.click("#reject")
    await tab.until("document.querySelector('#sure').open")
    await tab.click("#sure-no")
    assert (await turn_of(service, sealed))["state"] == "held"


async def test_an_edit_sends_what_was_changed_and_every_other_byte_as_it_was(
    service: Service, tab: Tab
) -> None:
    sealed = await waiting(service)
    await shown(tab, service, sealed)
    await tab.click("#edit")
    await tab.fill("#payload-0", "Dear Ada,\n\nit comes on Monday. ☀️")
    await tab.fill("#by", "Ada")
    await confirm(tab, "#approve")
    await tab.until("document.querySelector('#status').innerText")
    assert "approved with changes by Ada" in await tab.text("#status")
    assert await bodies_of(service, sealed) == [
        "Dear Ada,\n\nit comes on Monday. ☀️".encode(),
        REFUND,
    ]
    turn = await turn_of(service, sealed)
    assert [one["idempotency_key"] for one in turn["messages"]] == [
        one["idempotency_key"] for one in sealed["messages"]
    ]
    assert turn["hold"]["new_hash"] == turn["payload_hash"] != sealed["payload_hash"]
    await tab.click("#earlier-list summary")
    await tab.until("document.querySelector('#earlier-list pre')")
    assert "your money is on its way" in await tab.text("#earlier-list")


async def test_a_message_is_left_out(service: Service, tab: Tab) -> None:
    sealed = await waiting(service)
    await shown(tab, service, sealed)
    await tab.click("#edit")
    await tab.click("#out-1")
    await tab.fill("#by", "Ada")
    await confirm(tab, "#approve")
    await tab.until("document.querySelector('#status').innerText")
    assert await bodies_of(service, sealed) == [TEXT.encode()]


async def test_what_is_no_longer_json_is_not_sent(service: Service, tab: Tab) -> None:
    sealed = await waiting(service)
    await shown(tab, service, sealed)
    await tab.click("#edit")
    await tab.fill("#payload-1", '{"amount": ')
    await tab.fill("#by", "Ada")
    await tab.click("#approve")
    await tab.until("document.querySelector('#alert').innerText")
    assert "Message 2 is no longer JSON" in await tab.text("#alert")
    assert (await turn_of(service, sealed))["state"] == "held"


async def test_editing_without_a_change_approves_what_was_shown(service: Service, tab: Tab) -> None:
    sealed = await waiting(service)
    await shown(tab, service, sealed)
    await tab.click("#edit")
    await tab.fill("#by", "Ada")
    await confirm(tab, "#approve")
    await tab.until("document.querySelector('#status').innerText")
    assert (await turn_of(service, sealed))["hold"]["decision"] == "approve"


async def test_it_is_rejected(service: Service, tab: Tab) -> None:
    sealed = await waiting(service)
    await shown(tab, service, sealed)
    await tab.fill("#by", "Ada")
    await confirm(tab, "#reject")
    await tab.until("document.querySelector('#status').innerText")
    turn = await turn_of(service, sealed)
    assert (turn["state"], turn["reason"]) == ("cancelled", "rejected")
    assert "It was rejected" in await tab.text("#heading")


async def test_a_revision_needs_words_and_shows_what_is_void_afterwards(
    service: Service, tab: Tab
) -> None:
    sealed = await waiting(service)
    await shown(tab, service, sealed)
    await tab.fill("#by", "Ada")
    await tab.click("#revise")
    assert not await tab.run("document.querySelector('#sure').open")
    await tab.fill("#comment", "shorter, please")
    await confirm(tab, "#revise")
    await tab.until("document.querySelector('#status').innerText")
    assert "sent back for a revision by Ada" in await tab.text("#status")
    assert "is void" in await tab.text("#messages")
    assert (await turn_of(service, sealed))["state"] == "queued"
    # It may be sent back once in this queue.
    (turn,) = (await service.claim(queue="support")).json["turns"]
    assert turn["history"][0]["decision"]["comment"] == "shorter, please"
    again = (await service.seal(turn, MESSAGES[:1])).json
    await shown(tab, service, again)
    await tab.fill("#by", "Ada")
    await tab.fill("#comment", "and again")
    await confirm(tab, "#revise")
    await tab.until("document.querySelector('#alert').innerText")
    assert "as often as it may be" in await tab.text("#alert")
    assert tab.faults.pop().startswith("Failed to load resource")


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


async def test_a_turn_that_waits_for_an_answer_is_given_one_byte_for_byte(
    service: Service, tab: Tab
) -> None:
    turn = await service.claimed("k1")
    body = {
        "lease_token": turn["lease_token"],
        "name": "which one?",
        "payload_hash": "sha256:x",
        "note": "red or blue",
    }
    assert (await service.post(f"/v1/turns/{turn['id']}/park", body)).status == 200
    await shown(tab, service, {"turn": turn["id"], "payload_hash": "sha256:x"})
    for told in ("A turn waits for an answer", "which one?", "red or blue", "sha256:x"):
        assert told in await tab.text()
    assert await tab.text("#alert") == ""
    await tab.fill("#said-by", "Ada")
    await tab.fill("#said", '{"n": 1.10, "x": 12345678901234567890}')
    await confirm(tab, "#answer-form button")
    await tab.until("document.querySelector('#status').innerText")
    (again,) = (await service.claim()).json["turns"]
    answer = await service.claim()
    assert answer.json["turns"] == []
    assert again["history"][-1]["wait"]["by"] == "Ada"
    assert again["history"][-1]["wait"]["payload"] == {"n": 1.1, "x": 12345678901234567890}


async def test_keys_that_may_not_decide_are_told_in_words(service: Service, tab: Tab) -> None:
    sealed = await waiting(service)
    await tab.open(address(service, sealed))
    await unlock(tab, service, STRANGER)
    await tab.until("document.querySelector('#alert').innerText")
    assert "not valid" in await tab.text("#alert")
    assert await tab.run("document.querySelector('#turn').hidden")
    await shown(tab, service, sealed, scope="read")
    await tab.fill("#by", "Ada")
    await confirm(tab, "#approve")
    await tab.until("document.querySelector('#alert').innerText")
    assert "may look, but not decide" in await tab.text("#alert")
    assert (await turn_of(service, sealed))["state"] == "held"
    assert len(tab.faults) == 2
    tab.faults.clear()


async def test_what_is_not_there_is_told_in_words(service: Service, tab: Tab) -> None:
    for handle in ("turn_" + "0" * 26, "nonsense", "%ff%2e%2e"):
        await tab.open(f"{service.url}/console/turns/{handle}")
        await unlock(tab, service)
        await tab.until("document.querySelector('#alert').innerText")
        assert "no such turn" in await tab.text("#alert")
    tab.faults.clear()


async def test_the_key_is_kept_nowhere_and_forgotten_with_what_it_showed(
    service: Service, tab: Tab
) -> None:
    sealed = await waiting(service)
    await shown(tab, service, sealed)
    key = service.keys["approve"]
    kept = await tab.run(
        "JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}, location.href, "
        "document.documentElement.outerHTML, [...document.querySelectorAll('input')].map(i => i.value)])"
    )
    assert key not in kept
    assert json.loads(kept)[:3] == ["", {}, {}]
    assert all(key not in url for _, url in tab.requests)
    await tab.click("#forget")
    assert TEXT not in await tab.run("document.documentElement.outerHTML")
    assert await tab.run("document.querySelector('#turn').hidden")


async def test_it_can_be_done_by_keyboard_alone(service: Service, tab: Tab) -> None:
    sealed = await waiting(service)
    await tab.open(address(service, sealed))
    await tab.until("document.querySelector('#door-turn').textContent")
    await tab.tab()
    await tab.write(service.keys["approve"])
    await tab.enter()
    await tab.until("document.activeElement.id === 'heading'")
    seen: list[str] = []
    while not seen or seen[-1] != "reject":
        await tab.tab()
        seen.append(await tab.run("document.activeElement.id"))
        if seen[-1] == "by":
            await tab.write("Ada")
        assert len(seen) < 30
    assert [one for one in seen if one in ("by", "comment", "approve", "edit", "revise")] == [
        "by", "comment", "approve", "edit", "revise",
    ]  # fmt: skip
    await tab.enter()
    await tab.until("document.querySelector('#sure').open")
    # The first thing in the question is its answer.
    assert await tab.run("document.activeElement.id") == "sure-yes"
    await tab.enter()
    await tab.until("document.querySelector('#status').innerText")
    assert (await turn_of(service, sealed))["state"] == "cancelled"


async def test_everything_that_is_used_has_a_name(service: Service, tab: Tab) -> None:
    await shown(tab, service, await waiting(service))
    await tab.click("#edit")
    tree = await tab.send("Accessibility.getFullAXTree")
    used = [
        node
        for node in tree["nodes"]
        if node.get("role", {}).get("value") in ("button", "textbox", "checkbox", "link", "dialog")
    ]
    assert len(used) > 8
    assert [node for node in used if not node.get("name", {}).get("value")] == []


@pytest.mark.parametrize("screen", SCREENS)
async def test_it_fits_every_screen_by_day_and_by_night(
    service: Service, tab: Tab, screen: str, tmp_path: Path
) -> None:
    await tab.look(**SCREENS[screen])
    sealed = await held(service, [{"destination": "loopback", "payload": "x" * 5000}, *MESSAGES])
    await shown(tab, service, sealed)
    await tab.click("#edit")
    assert await tab.run("document.documentElement.scrollWidth") <= SCREENS[screen]["width"]
    low = await tab.run(
        "[...document.querySelectorAll('button, input:not([type=checkbox]), textarea, label.tick')]"
        ".filter(e => e.offsetParent && e.offsetHeight < 44).map(e => e.id)"
    )
    assert low == []
    ground = await tab.run("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(17, 20, 24)") == ("dark" in screen)
    picture = tmp_path / f"{screen}.png"
    await tab.picture(picture)
    assert picture.stat().st_size > 10_000
