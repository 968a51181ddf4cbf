"""An operation over many while its workers are killed: all of it is done, each thing once, and it can be stopped."""

import asyncio
import json
from typing import TYPE_CHECKING

from tests.receiver import Receiver
from tests.system.conftest import configuration
from tests.system.processes import Json, Service
from tests.system.rig import Rig

if TYPE_CHECKING:
    from tests.database import Admin

TURNS = 1200
LANES = 20
BATCH = 100
END_SECONDS_MAX = 60.0


async def accept_many(api: Service) -> None:
    """Turns in lanes: most of them wait."""
    for start in range(0, TURNS, BATCH):
        items = [
            {"idempotency_key": f"k{n}", "queue": "support", "conversation": f"c{n % LANES}", "payload": n}
            for n in range(start, start + BATCH)
        ]  # fmt: skip
        answer = await api.post("/v1/inbound/batch", {"items": items})
        assert {one["status"] for one in answer.json["results"]} == {202}


async def begin(rig: Rig, api: Service, *words: str) -> str:
    """Begin an operation from the command line; returns its id."""
    said = await rig.run(
        *("turns", "bulk", "cancel", *words, "--reason", "a drill", "--json"),
        SINKSWEEP_URL=api.url,
        SINKSWEEP_KEY=api.key,
    )
    assert said.code == 0, said.err
    return str(json.loads(said.out)["id"])


async def found(api: Service, operation: str, *, least: int) -> Json:
    """The operation once it has worked on so many."""
    async with asyncio.timeout(END_SECONDS_MAX):
        while True:
            now = (await api.get(f"/v1/operations/{operation}")).json
            if now["found"] >= least or now["state"] != "running":
                return now
            await asyncio.sleep(0.01)


async def test_workers_killed_in_the_middle_leave_nothing_out_and_do_nothing_twice(
    rig: Rig, admin: "Admin", receiver: Receiver
) -> None:
    slowly = configuration(receiver.url).replace("[sweep]", "[sweep]\nbatch_max = 10")
    rig.configure(slowly)
    api, *workers = await rig.serve_all({"api": "api", "first": "sweep", "second": "sweep"})
    await accept_many(api)
    operation = await begin(rig, api, "--queue", "support")
    for part in range(1, 6):
        now = await found(api, operation, least=part * TURNS // 10)
        assert now["state"] == "running", "it was over before anybody was killed"
        for worker in workers[: 1 + part % 2]:
            await worker.kill()
            await worker.start()
    now = await found(api, operation, least=TURNS)
    counts = [now[name] for name in ("state", "found", "changed", "refused", "failed")]
    assert counts == ["done", TURNS, TURNS, 0, 0]
    rows = await admin.fetch(
        "select turn, count(*) from sink.event where verb = 'cancel' group by turn"
    )
    assert len(rows) == TURNS
    assert {row["count"] for row in rows} == {1}
    assert await admin.fetchval("select count(*) from sink.turn where state <> 'cancelled'") == 0


async def test_an_operation_waits_for_a_worker_and_is_stopped_on_its_way(
    rig: Rig, admin: "Admin"
) -> None:
    api = await rig.serve("api", roles="api")
    await accept_many(api)
    operation = await begin(rig, api, "--everything")
    assert (await api.get(f"/v1/operations/{operation}")).json["found"] == 0
    await rig.serve("sweep", roles="sweep")
    await found(api, operation, least=1)
    stopped = (await api.post(f"/v1/operations/{operation}/cancel", {})).json
    assert (stopped["state"], stopped["found"] < TURNS) == ("cancelled", True)
    # The worker goes on with what else there is, and not with this.
    after = await begin(rig, api, "--state", "processing", "--everything")
    assert (await found(api, after, least=1))["state"] == "done"
    assert (await api.get(f"/v1/operations/{operation}")).json == stopped
    query = "select count(*) from sink.turn where state = 'cancelled'"
    assert await admin.fetchval(query) == stopped["changed"]
