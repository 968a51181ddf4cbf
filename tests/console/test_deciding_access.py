"""Who may decide can: by keyboard and on every screen; and whoever may not is told so in words."""

import json
from pathlib import Path

import pytest

from tests.api.conftest import STRANGER, Service
from tests.console.browser import Tab
from tests.console.conftest import SCREENS, address, held, shown, unlock
from tests.console.deciding import MESSAGES, TEXT, confirm, turn_of, waiting

pytestmark = pytest.mark.timeout(120)


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
