"""Behind a claim that left nothing nobody looks again until something is told; what was left is found at once."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from app.api import desk as desk_module
from app.api.desk import ClaimDesk
from app.domain.model import Claimed, ClaimRequest
from app.engine.accept import accept
from app.engine.claim import claim as real_claim
from app.engine.marks import Marks
from app.engine.wake import queue_topic
from tests.api.claiming import Wanted
from tests.api.conftest import Here, Service
from tests.engine.stories import KEY_SECONDS, arrival, wish

if TYPE_CHECKING:
    from app.engine.database import Pool

WAIT_SECONDS = 20.0
SOON_SECONDS = 5.0
QUIET_SECONDS = 0.3


class Looks:
    """The claims that were made, by how many turns each gave."""

    def __init__(self) -> None:
        self.given: list[int] = []
        self.looked = asyncio.Event()
        # Awaited behind each look, before anybody hears of it.
        self.behind: list[asyncio.Event] = []

    async def claim(
        self, pool: "Pool", requests: Sequence[ClaimRequest], *, still_wanted: Wanted, marks: Marks
    ) -> list[list[Claimed] | None]:
        answers = await real_claim(pool, requests, still_wanted=still_wanted, marks=marks)
        self.given.append(sum(len(answer or ()) for answer in answers))
        self.looked.set()
        if self.behind:
            await self.behind.pop().wait()
        return answers

    async def once(self) -> None:
        async with asyncio.timeout(SOON_SECONDS):
            await self.looked.wait()
        self.looked.clear()

    async def over(self) -> None:
        """All who came have been looked for, and nobody looks any more."""
        while await self.again():
            pass
        self.given.clear()

    async def again(self) -> bool:
        """Whether there is another look before long."""
        try:
            async with asyncio.timeout(QUIET_SECONDS):
                await self.looked.wait()
        except TimeoutError:
            return False
        self.looked.clear()
        return True


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    found = Looks()
    monkeypatch.setattr(desk_module, "claim", found.claim)
    return found


class Desk:
    """A desk, agents that wait at it, and what is accepted meanwhile."""

    def __init__(self, service: Service) -> None:
        self.core = service.core
        self.desk = ClaimDesk(service.core)

    async def wait(self, request: ClaimRequest) -> list[Claimed]:
        return await self.desk.claim(self.desk.seat(request, Here(), wait_seconds=WAIT_SECONDS))

    async def accept(self, *names: str, body: bytes = b"{}") -> None:
        arrivals = [arrival(name, body=body) for name in names]
        await accept(self.core.pool, arrivals, ids=self.core.ids, key_seconds=KEY_SECONDS)
        self.core.wakes.tell(queue_topic("default"))


async def test_who_serves_next_looks_only_when_something_is_told(
    service: Service, looks: Looks
) -> None:
    desk = Desk(service)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(desk.wait(wish(1))) for _ in range(2)]
        await looks.over()
        await desk.accept("a")
        await looks.once()
        # Nothing is told, so nothing is looked for.
        assert not await looks.again()
        began = time.monotonic()
        await desk.accept("b")
    assert time.monotonic() - began < SOON_SECONDS
    assert [len(one.result()) for one in waiting] == [1, 1]
    assert looks.given == [1, 1]


async def test_what_is_told_while_the_line_changes_hands_is_looked_for(
    service: Service, looks: Looks
) -> None:
    desk = Desk(service)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(desk.wait(wish(1))) for _ in range(2)]
        await looks.over()
        held = asyncio.Event()
        looks.behind.append(held)
        await desk.accept("a")
        await looks.once()
        # It has looked already, and will not see this one.
        began = time.monotonic()
        await desk.accept("b")
        held.set()
    assert time.monotonic() - began < SOON_SECONDS
    assert [len(one.result()) for one in waiting] == [1, 1]
    assert looks.given == [1, 1]


async def test_more_than_was_asked_for_is_claimed_at_once(service: Service, looks: Looks) -> None:
    desk = Desk(service)
    await desk.accept("a", "b")
    assert len(await desk.wait(wish(1))) == 1
    began = time.monotonic()
    assert len(await desk.wait(wish(1))) == 1
    assert time.monotonic() - began < SOON_SECONDS
    assert looks.given == [1, 1]


async def test_what_did_not_fit_into_an_answer_is_claimed_at_once(
    service: Service, looks: Looks
) -> None:
    desk = Desk(service)
    small = replace(wish(4), answer_bytes_max=1)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(desk.wait(small)) for _ in range(3)]
        await looks.over()
        began = time.monotonic()
        await desk.accept("a", "b", "c", body=b'{"text": "longer than an answer may be"}')
    assert time.monotonic() - began < SOON_SECONDS
    assert [len(one.result()) for one in waiting] == [1, 1, 1]
    assert looks.given == [1, 1, 1]


async def test_a_seal_wakes_who_waits_where_it_frees_a_lane_and_else_nobody(
    service: Service, looks: Looks
) -> None:
    for name in ("a", "b"):
        await service.accept(name, conversation="c")
    async with asyncio.TaskGroup() as group:
        first, second = [await service.claim() for _ in range(2)]
        assert second.json["turns"] == []
        waiting = [group.create_task(service.claim(wait_seconds=WAIT_SECONDS)) for _ in range(2)]
        await looks.over()
        began = time.monotonic()
        assert (await service.seal(first.json["turns"][0], [])).status == 200
        await looks.once()
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        (last,) = [turn for one in done for turn in one.result().json["turns"]]
        assert (await service.seal(last, [])).status == 200
        assert not await looks.again()
        await service.accept("c")
    assert time.monotonic() - began < SOON_SECONDS
    assert looks.given == [1, 1]


class Leaver:
    """A client that may leave."""

    gone = False


@pytest.fixture
def rare(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are heard: the desk polls rarely."""
    wakes = type(service.core.wakes)
    monkeypatch.setattr(wakes, "listening", property(lambda _wakes: True))


@pytest.mark.usefixtures("rare")
async def test_what_was_for_who_leaves_is_given_at_once_to_who_came_meanwhile(
    service: Service, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, leaver = Desk(service), Leaver()
    seat = desk.desk.seat(wish(1), leaver, wait_seconds=WAIT_SECONDS)
    second: list[asyncio.Task[list[Claimed]]] = []
    async with asyncio.timeout(SOON_SECONDS), asyncio.TaskGroup() as group:

        async def leaving(
            pool: "Pool", requests: Sequence[ClaimRequest], *, still_wanted: Wanted, marks: Marks
        ) -> list[list[Claimed] | None]:
            monkeypatch.setattr(desk_module, "claim", looks.claim)
            second.append(group.create_task(desk.wait(wish(1))))
            await asyncio.sleep(0.01)
            leaver.gone = True
            return await real_claim(pool, requests, still_wanted=still_wanted, marks=marks)

        first = group.create_task(desk.desk.claim(seat))
        await looks.over()
        monkeypatch.setattr(desk_module, "claim", leaving)
        await desk.accept("a")
    assert first.result() == []
    assert len(second[0].result()) == 1


@pytest.mark.usefixtures("rare")
async def test_what_was_told_to_who_is_cancelled_is_looked_for_by_who_serves_next(
    service: Service, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(service)
    begun = asyncio.Event()

    async def hanging(*_: object, **__: object) -> list[list[Claimed] | None]:
        begun.set()
        await asyncio.Event().wait()
        return []

    async with asyncio.timeout(SOON_SECONDS), asyncio.TaskGroup() as group:
        first = group.create_task(desk.wait(wish(1)))
        await looks.over()
        second = group.create_task(desk.wait(wish(1)))
        await looks.over()
        monkeypatch.setattr(desk_module, "claim", hanging)
        await desk.accept("a")
        await begun.wait()
        monkeypatch.setattr(desk_module, "claim", looks.claim)
        first.cancel()
    assert len(second.result()) == 1
