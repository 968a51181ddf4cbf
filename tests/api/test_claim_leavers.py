"""Who leaves before the answer is there is given nothing, and who leaves behind it keeps the turn."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from app.api import desk as desk_module
from app.domain.model import Claimed, ClaimRequest
from app.engine.claim import claim as real_claim
from app.engine.marks import Marks
from tests.api.claiming import Client, Wanted, seated
from tests.api.conftest import Service

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.database import Admin


@pytest.mark.parametrize("heard", [False, True])
async def test_who_leaves_while_waiting_is_given_nothing(
    service: Service, admin: "Admin", monkeypatch: pytest.MonkeyPatch, *, heard: bool
) -> None:
    """And is soon forgotten, also where the queue would be looked at much later."""
    wakes = type(service.core.wakes)
    monkeypatch.setattr(wakes, "listening", property(lambda _wakes: heard))
    client = Client(service)
    await client.claim(wait_seconds=30)
    await seated(service, "default")
    await client.leave()
    waiting = service.core.wakes._waiting  # noqa: SLF001 - nothing else tells that nobody waits
    async with asyncio.timeout(5):
        while waiting.get("queue/default"):
            await asyncio.sleep(0.01)
    await service.accept("k1")
    assert await admin.fetchval("select count(*) from sink.attempt") == 0
    (turn,) = (await service.claim()).json["turns"]
    assert turn["attempt"] == 1


async def test_a_claim_commits_only_for_who_is_still_there(
    service: Service, admin: "Admin", monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(service)
    left = asyncio.Event()

    async def leaving(
        pool: "Pool", requests: Sequence[ClaimRequest], *, still_wanted: Wanted, marks: Marks
    ) -> list[list[Claimed] | None]:
        def wanted(position: int) -> bool:
            # Asked before the transaction and just before its commit: gone by the second time.
            answer = still_wanted(position) and not asked
            asked.append(position)
            return answer or len(asked) == 1

        asked: list[int] = []
        found = await real_claim(pool, requests, still_wanted=wanted, marks=marks)
        left.set()
        return found

    monkeypatch.setattr(desk_module, "claim", leaving)
    await service.accept("k1")
    await client.claim()
    async with asyncio.timeout(5):
        await left.wait()
    assert await admin.fetchval("select state from sink.turn") == "queued"
    assert await admin.fetchval("select count(*) from sink.attempt") == 0
    await client.leave()


async def test_a_claim_whose_answer_nobody_reads_is_given_back_free(
    service: Service, admin: "Admin", monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(service)

    async def leaving(
        pool: "Pool", requests: Sequence[ClaimRequest], *, still_wanted: Wanted, marks: Marks
    ) -> list[list[Claimed] | None]:
        found = await real_claim(pool, requests, still_wanted=still_wanted, marks=marks)
        await client.leave()
        async with asyncio.timeout(5):
            while still_wanted(0):
                await asyncio.sleep(0.005)
        return found

    monkeypatch.setattr(desk_module, "claim", leaving)
    await service.accept("k1")
    await client.claim(request_id="request-of-16-or-more")
    async with asyncio.timeout(5):
        while not await admin.fetchval("select ended from sink.attempt"):
            await asyncio.sleep(0.01)
        while await admin.fetchval("select count(*) from sink.claim_request"):
            await asyncio.sleep(0.01)
    row = await admin.fetchrow("select state, attempts_used, releases from sink.turn")
    assert row is not None
    # Nobody ever heard of it: not even a release.
    assert tuple(row) == ("queued", 0, 0)
    monkeypatch.undo()
    # Who asks again for what never came gets it.
    again = await service.claim(scope="agent", agent="leaver", request_id="request-of-16-or-more")
    (turn,) = again.json["turns"]
    assert [(one["ended"], one["reason"]) for one in turn["history"]] == [
        ("released", "client_gone")
    ]


async def test_a_client_that_closes_after_its_answer_keeps_its_turn(
    service: Service, admin: "Admin"
) -> None:
    for n in range(20):
        await service.accept(f"k{n}", payload="x" * (n * 3000))
    for _ in range(20):
        client = Client(service)
        await client.claim()
        head = await client.reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        )
        await client.reader.readexactly(length)
        await client.leave()
    await service.get("/livez")
    assert await admin.fetchval("select count(*) from sink.turn where state = 'processing'") == 20
