"""A person follows a link, sees the bytes that wait, and decides about these and no others."""

import pytest

from tests.api.conftest import Service
from tests.console.browser import Tab
from tests.console.conftest import shown
from tests.console.deciding import (
    MESSAGES,
    NOTE,
    REFUND,
    TEXT,
    bodies_of,
    confirm,
    turn_of,
    waiting,
)

pytestmark = pytest.mark.timeout(120)


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
