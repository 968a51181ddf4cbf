"""The page for deciding, in a real browser, before a real service: what every test of this folder asks for."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from app.settings import Destination, Limits, Queue
from tests.api.conftest import EMPTY, Service, opened
from tests.console.browser import Browser, Tab, browsing, find_browser
from tests.database import Clock, Server
from tests.engine.invariants import broken

if TYPE_CHECKING:
    from tests.database import Admin

# A screen of a desk and of a phone, by day and by night.
SCREENS: dict[str, dict[str, Any]] = {
    "desk": {"width": 1280, "height": 900},
    "desk-dark": {"width": 1280, "height": 900, "dark": True},
    "phone": {"width": 390, "height": 844, "phone": True},
    "phone-dark": {"width": 390, "height": 844, "phone": True, "dark": True},
}


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all tests; without one on this machine they are skipped."""
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium is installed here: the page is not looked at")
    async with browsing(program) as started:
        yield started


@pytest.fixture
async def tab(browser: Browser) -> AsyncIterator[Tab]:
    """A page of its own. Nothing that it does may go wrong unseen."""
    async with browser.page() as page:
        yield page
        assert page.faults == []


@pytest.fixture(scope="session")
async def database_url(postgres: Server) -> AsyncIterator[str]:
    """One database for all tests of this folder: each finds it empty."""
    async with postgres.database() as url:
        yield url


@pytest.fixture(scope="session")
async def running(database_url: str) -> AsyncIterator[Service]:
    """One service for all tests of this folder."""
    queues = {
        "default": Queue(backoff_seconds=0.01),
        "support": Queue(hold="always", revisions_max=1, destinations=("loopback", "mail")),
    }
    destinations = {
        "loopback": Destination(kind="loopback", headers_allow=("x-tag",), to_allow=("*",)),
        "mail": Destination(kind="loopback", to_allow=("*",)),
    }
    async with opened(
        database_url, queues=queues, destinations=destinations, limits=Limits()
    ) as service:
        yield service


@pytest.fixture
async def service(running: Service, admin: "Admin") -> AsyncIterator[Service]:
    """A running service on an empty database. When the test is over, everything that must always hold is checked."""
    await admin.execute(EMPTY)
    await Clock(admin).travel(0)
    yield running
    assert await broken(admin) == {}


async def held(service: Service, messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """A turn whose set waits for a decision: what its seal was answered."""
    turn = await service.claimed("k1", queue="support", conversation="ada@example.org")
    answer = await service.seal(turn, messages, **fields)
    assert answer.status == 200, answer.body
    sealed: dict[str, Any] = answer.json
    assert sealed["state"] == "held"
    return sealed


def address(service: Service, sealed: dict[str, Any]) -> str:
    """The link that an approver is sent."""
    return f"{service.url}/console/turns/{sealed['turn']}?hash={sealed['payload_hash']}"


async def shown(tab: Tab, service: Service, sealed: dict[str, Any], scope: str = "approve") -> None:
    """Follow the link and show the key."""
    await tab.open(address(service, sealed))
    await unlock(tab, service, scope)
    await tab.until("!document.querySelector('#turn').hidden")


async def unlock(tab: Tab, service: Service, scope: str = "approve") -> None:
    """Type the key, and go on."""
    await tab.until("document.querySelector('#door-turn').textContent")
    await tab.fill("#key", service.keys.get(scope, scope))
    await tab.enter()
