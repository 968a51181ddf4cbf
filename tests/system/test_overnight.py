"""The overnight refund: a person sleeps over it while everything is killed, and exactly one refund leaves."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import asyncpg
import pytest

from app.engine.database import open_pool
from app.engine.keys import create_key
from tests.database import Clock, options_for
from tests.receiver import Receiver, open_receiver
from tests.system.conftest import configuration
from tests.system.own_postgres import OwnPostgres, open_own_postgres
from tests.system.processes import POLL_SECONDS, Service
from tests.system.provider import Event, Provider
from tests.system.rig import WORKING, Rig
from tests.system.verdict import faults

if TYPE_CHECKING:
    from tests.database import Admin

REFUND = Event("order-17", b'{"text": "I want my money back"}', "ada")
HOUR = 3600.0
DEADLINE_SECONDS = 16 * 3600
REMINDER_SECONDS = 3600
HELD = """
[destinations.desk]
kind = "webhook"
url = "{desk}"
"""
POLICY = f"""[queues.support]
hold = "always"
hold_deadline_seconds = {DEADLINE_SECONDS}
reminder_seconds = {REMINDER_SECONDS}
approvers = "desk"
escalate_to = "desk"
"""


class Night:
    """The service, its database, a desk that is told, and the approver who sits there."""

    def __init__(self, rig: Rig, postgres: OwnPostgres, desk: Receiver, approver: str) -> None:
        self.rig = rig
        self.postgres = postgres
        self.desk = desk
        self.approver = approver
        self.ahead_seconds = 0.0

    @asynccontextmanager
    async def admin(self) -> "AsyncIterator[Admin]":
        """A session of the moment: the server is killed in between."""
        connection = await asyncpg.connect(self.postgres.url)
        try:
            yield connection
        finally:
            await connection.close()

    async def passes(self, seconds: float) -> None:
        """The database's clock goes on by so much, for everybody."""
        async with self.admin() as admin:
            clock = Clock(admin, self.ahead_seconds)
            await clock.travel(seconds)
            self.ahead_seconds = clock.ahead_seconds

    async def falls(self, service: Service, *, hours: float) -> None:
        """The service and its Postgres are killed, and come back after so many hours."""
        await service.kill()
        await self.postgres.kill()
        await self.postgres.start()
        await self.passes(hours * HOUR)
        await service.restart()

    async def told(self, kind: str, count: int) -> list[dict[str, Any]]:
        """What the desk was told of a kind, once it was told so often; a notice that came again is one."""
        found: dict[str, dict[str, Any]] = {}
        async with asyncio.timeout(20):
            while len(found) < count:
                await asyncio.sleep(POLL_SECONDS)
                notices = {one.key: json.loads(one.body) for one in self.desk.got}
                found = {key: one for key, one in notices.items() if one["kind"] == kind}
        assert len(found) == count
        return list(found.values())

    async def decide(self, service: Service, turn: str, decision: str, digest: str) -> Any:
        """What the approver answers from a page that shows this hash."""
        body = {"decision": decision, "payload_hash": digest, "by": "ada"}
        if decision == "revise":
            body["comment"] = "half of it"
        return await service.post(f"/v1/turns/{turn}/decision", body, key=self.approver)

    async def reaches(self, service: Service, turn: str, state: str) -> dict[str, Any]:
        """The turn, once its events contain this state."""
        path = f"/v1/turns/{turn}?wait={state}&timeout_seconds=20"
        seen: dict[str, Any] = (await service.get(path)).json
        assert seen["state"] == state
        return seen


@pytest.fixture
async def night(
    tmp_path: Path, receiver: Receiver, session: aiohttp.ClientSession
) -> AsyncIterator[Night]:
    """Nothing runs yet but the database."""
    async with open_own_postgres() as postgres, open_receiver() as desk:
        rig = Rig(tmp_path, postgres.url, "", session)
        text = configuration(receiver.url).replace("allow_unsafe = true", "connect_seconds = 2")
        rig.configure(text.replace("[queues.support]\n", POLICY) + HELD.format(desk=desk.url))
        try:
            migrated = await rig.run("migrate")
            assert migrated.code == 0, migrated.err
            async with open_pool(options_for(postgres.url), application_name="test") as pool:
                rig.key = await create_key(pool, name="rig", scopes=WORKING, queues=None)
                approver = await create_key(pool, name="ada", scopes=["approve"], queues=None)
            yield Night(rig, postgres, desk, approver)
        finally:
            await rig.close()


@pytest.mark.timeout(180)
async def test_the_overnight_refund_leaves_once(night: Night, receiver: Receiver) -> None:
    service = await night.rig.serve("all")
    provider = Provider([service])
    await provider.send(REFUND)
    old = await night.rig.agent("old", service, messages=1, lease_seconds=60, stop=True)
    turn = (await old.hear("claimed"))["answer"]["id"]
    drafted = (await old.order("seal", "sealed"))["answer"]
    assert drafted["state"] == "held"
    stale = drafted["payload_hash"]

    # In the evening: the desk is told, and sends the draft back. Another agent drafts it anew.
    (notice,) = await night.told("hold", 1)
    assert (notice["turn"], notice["payload_hash"]) == (turn, stale)
    assert (await night.decide(service, turn, "revise", stale)).status == 200
    new = await night.rig.agent("new", service, messages=1, lease_seconds=60, stop=True)
    again = (await new.hear("claimed"))["answer"]
    assert (again["id"], again["attempt"]) == (turn, 2)
    (revised,) = again["history"]
    assert revised["ended"] == "revised"
    assert revised["decision"]["comment"] == "half of it"
    assert revised["decision"]["payload_hash"] == stale
    sealed = (await new.order("seal", "sealed"))["answer"]
    assert sealed["state"] == "held"
    notices = await night.told("hold", 2)
    assert {one["payload_hash"] for one in notices} == {stale, sealed["payload_hash"]}
    assert receiver.got == []

    # In the night everything is killed; in the morning the page of the evening still lies open somewhere.
    await night.falls(service, hours=10)
    refused = await night.decide(service, turn, "approve", stale)
    assert (refused.status, refused.json["code"]) == (409, "payload_changed")
    assert (await service.get(f"/v1/turns/{turn}")).json["state"] == "held"
    assert receiver.got == []
    first = await night.decide(service, turn, "approve", sealed["payload_hash"])
    assert first.status == 200
    await night.reaches(service, turn, "replied")

    # The first agent was away all night, and comes back with its old token; so does the person's double click.
    back = await old.order("seal", "sealed")
    assert back["status"] == 200
    assert back["answer"]["payload_hash"] == stale
    assert [m["id"] for m in back["answer"]["messages"]] == [m["id"] for m in drafted["messages"]]
    assert (await old.order("renew", "renewed"))["answer"]["code"] == "lease_lost"
    repeated = await night.decide(service, turn, "approve", sealed["payload_hash"])
    assert repeated.status == 200
    said = ("decision", "payload_hash", "by", "at")
    assert [repeated.json[name] for name in said] == [first.json[name] for name in said]
    other = await night.decide(service, turn, "reject", sealed["payload_hash"])
    assert (other.status, other.json["code"]) == (409, "already_decided")

    await night.falls(service, hours=10)
    async with night.admin() as admin:
        assert await faults(admin, provider=provider) == []
        working = await admin.fetch("select state from sink.turn where about is null")
        assert [row["state"] for row in working] == ["replied"]
        assert (
            await admin.fetchval("select count(*) from sink.hold where decision = 'approve'") == 1
        )
    assert [request.key for request in receiver.got] == [
        message["idempotency_key"] for message in sealed["messages"]
    ]


@pytest.mark.timeout(180)
async def test_a_refund_that_nobody_decides_escalates_is_told_again_and_can_still_be_decided(
    night: Night, receiver: Receiver
) -> None:
    service = await night.rig.serve("all")
    await Provider([service]).send(REFUND)
    agent = await night.rig.agent("agent", service, messages=1, lease_seconds=60, stop=True)
    turn = (await agent.hear("claimed"))["answer"]["id"]
    sealed = (await agent.order("seal", "sealed"))["answer"]
    await night.told("hold", 1)
    # The deadline passes while nothing runs and nobody asks.
    await night.falls(service, hours=DEADLINE_SECONDS / HOUR + 1)
    (notice,) = await night.told("escalation", 1)
    assert (notice["turn"], notice["reason"]) == (turn, "hold_expired")
    assert notice["payload_hash"] == sealed["payload_hash"]
    assert (await service.get(f"/v1/turns/{turn}")).json["state"] == "escalated"
    await night.passes(REMINDER_SECONDS + 1)
    await night.told("escalation", 2)
    assert receiver.got == []
    decided = await night.decide(service, turn, "approve", sealed["payload_hash"])
    assert decided.status == 200
    await night.reaches(service, turn, "replied")
    assert [request.key for request in receiver.got] == [
        message["idempotency_key"] for message in sealed["messages"]
    ]
    async with night.admin() as admin:
        assert await faults(admin) == []
        held = await admin.fetchrow("select decision, decided_by, reminders from sink.hold")
        assert held is not None
        assert (held["decision"], held["decided_by"]) == ("approve", "ada")
        assert held["reminders"] >= 2
