"""The doctor of what is in the tables, of secrets and of destinations: each shown with something wrong."""

import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.doctor.findings import Level
from app.doctor.patient import Patient
from app.engine.pause import pause
from tests.database import Clock
from tests.doctor.conftest import OpenPatient, level, look
from tests.engine.stories import DEAD, DELIVERED, Sink, draft
from tests.wire.servers import closing, listening

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.database import Admin


async def test_nothing_that_stands_is_good(patient: Patient) -> None:
    for code in (
        "unknown_names",
        "breakers",
        "pauses",
        "sweep",
        "retention",
        "queues",
        "deliveries",
        "dead_letters",
    ):
        assert await level(patient, code) is Level.GOOD, code


async def test_work_of_a_name_that_nobody_configured_is_told(patient: Patient, sink: Sink) -> None:
    await sink.accept_one("a", queue="forgotten")
    await sink.accept_one("b", "c", queue="behind")
    await sink.accept_one("c", "c", queue="behind")
    await sink.sealed("d", draft("hello", destination="removed"))
    queues, destinations = await look(patient, "unknown_names")
    assert queues.level is destinations.level is Level.WARNING
    assert queues.text.endswith("behind, forgotten.")
    assert destinations.text.endswith("removed.")


async def test_an_open_breaker_and_a_disabled_destination_are_told(
    patient: Patient, admin: "Admin"
) -> None:
    await admin.execute(
        "insert into sink.destination (name, breaker, opened_at, reason)"
        " values ('crm', 'open', now(), 'http_500'), ('gone', 'disabled', now(), 'http_410')"
    )
    crm, gone = await look(patient, "breakers")
    assert "open" in crm.text
    assert "disabled" in gone.text
    assert {crm.level, gone.level} == {Level.WARNING}


async def test_what_is_paused_is_told(patient: Patient, pool: "Pool") -> None:
    await pause(pool, "all", by="key")
    await pause(pool, "queue", "default", by="key")
    everything, queue = await look(patient, "pauses")
    assert everything.text.startswith("Everything is paused")
    assert queue.text.startswith("The queue default is paused")


async def test_leases_that_nobody_sweeps_are_wrong(
    patient: Patient, sink: Sink, clock: Clock
) -> None:
    await sink.hold("a")
    await sink.accept_one("b", delay_seconds=30.0)
    await sink.sealed("c", draft("hello"))
    await sink.take_one()
    await clock.travel(1000)
    found = await look(patient, "sweep")
    assert [finding.level for finding in found] == [Level.WRONG] * 3


async def test_a_queue_without_agents_and_a_destination_without_workers_are_told(
    patient: Patient, sink: Sink, clock: Clock
) -> None:
    await sink.sealed("a", draft("hello"))
    await sink.accept_one("b")
    await clock.travel(1000)
    assert await level(patient, "queues") is Level.WARNING
    assert await level(patient, "deliveries") is Level.WARNING


async def test_what_is_kept_for_too_long_is_told(
    patient: Patient, sink: Sink, clock: Clock
) -> None:
    await sink.sealed("a", draft("hello"))
    await sink.settle_next(DELIVERED)
    assert await level(patient, "retention") is Level.GOOD
    await clock.travel(40 * 86_400)
    assert await level(patient, "retention") is Level.WARNING


async def test_dead_letters_are_told(patient: Patient, sink: Sink) -> None:
    await sink.sealed("a", draft("hello"))
    await sink.settle_next(DEAD)
    (finding,) = await look(patient, "dead_letters")
    assert finding.text == "Messages for the destination crm that are dead: 1."


def _webhook(**changes: Any) -> dict[str, Any]:
    return {"kind": "webhook", "url": "http://127.0.0.1:9/canary-path", **changes}


async def test_a_secret_that_is_not_there_is_wrong_and_none_at_all_is_told(
    opening: OpenPatient, tmp_path: Path
) -> None:
    (tmp_path / "there").write_text("whsec_Y2FuYXJ5")
    destinations = {
        "good": _webhook(secrets=[f"file:{tmp_path}/there"]),
        "missing": _webhook(secrets=[f"file:{tmp_path}/nowhere"]),
        "unsigned": _webhook(),
    }
    async with opening(destinations=destinations) as opened:
        missing, unsigned = await look(opened, "secrets")
    assert missing.level is Level.WRONG
    assert "nowhere" in missing.text
    assert unsigned.level is Level.WARNING
    async with opening(destinations={"good": destinations["good"]}) as opened:
        assert await level(opened, "secrets") is Level.GOOD


async def test_destinations_are_connected_to_and_sent_nothing(opening: OpenPatient) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    async with (
        listening(closing, host="127.0.0.1", tls=None) as server,
        listening(closing, host="127.0.0.1", tls=tls) as unknown,
    ):
        at = f"127.0.0.1:{server.port}"
        destinations = {
            "answers": _webhook(url=f"http://{at}/canary-path?key=canary-query"),
            "refuses": _webhook(url="http://127.0.0.1:9/canary-path"),
            "speaks_no_tls": _webhook(url=f"https://127.0.0.1:{unknown.port}/canary-path"),
            "unresolved": _webhook(url="https://canary.invalid/canary-path"),
            "inside": _webhook(url="http://10.1.2.3/canary-path"),
            "stays": {"kind": "loopback"},
        }
        async with opening(reach=True, destinations=destinations) as strict:
            denied = {one.text.split(" ")[2]: one for one in await look(strict, "destinations")}
        assert server.connections == 0
        network = {"allow": ["127.0.0.0/8"]}
        async with opening(reach=True, destinations=destinations, network=network) as opened:
            found = {one.text.split(" ")[2]: one for one in await look(opened, "destinations")}
        assert (server.connections, server.requests) == (1, [])
    assert "address_denied" in denied["answers"].text
    assert found["answers"].level is Level.GOOD
    reasons = {
        "refuses": "connection_refused",
        "speaks_no_tls": "tls_failed",
        "unresolved": "dns_failed",
        "inside": "address_denied",
    }
    assert found.keys() == {"answers", *reasons}
    for name, reason in reasons.items():
        assert found[name].level is Level.WRONG
        assert reason in found[name].text
    assert "canary" not in f"{denied}{found}"
    assert "127.0.0.1" not in f"{denied}{found}"


async def test_without_the_network_nobody_is_connected_to(opening: OpenPatient) -> None:
    async with (
        listening(closing, host="127.0.0.1", tls=None) as server,
        opening(destinations={"crm": _webhook(url=f"http://127.0.0.1:{server.port}/")}) as opened,
    ):
        assert await level(opened, "destinations") is Level.SKIPPED
    assert server.connections == 0


@pytest.mark.parametrize(
    ("ahead", "expected"), [(0.0, Level.GOOD), (-9.0, Level.WARNING), (600.0, Level.WRONG)]
)
async def test_a_clock_that_is_wrong_here_is_told(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, ahead: float, expected: Level
) -> None:
    right = time.time  # noqa: TID251 - this clock is what is set
    monkeypatch.setattr("time.time", lambda: right() + ahead)
    (finding,) = await look(patient, "clock_skew")
    assert finding.level is expected
    assert ("ahead" in finding.text) or ahead <= 0


async def test_who_moves_the_database_in_time_moves_no_skew(patient: Patient, clock: Clock) -> None:
    await clock.travel(5000)
    assert await level(patient, "clock_skew") is Level.GOOD


async def test_sessions_that_last_and_notifications_that_arrive_are_good(patient: Patient) -> None:
    assert await level(patient, "pooler") is Level.GOOD
    assert await level(patient, "notifications") is Level.GOOD


async def test_a_pooler_that_is_not_there_and_no_way_past_one_are_told(
    opening: OpenPatient,
) -> None:
    async with opening(database={"pooler": "transaction"}) as opened:
        assert await level(opened, "pooler") is Level.WARNING
        assert await level(opened, "notifications") is Level.WARNING
