"""The doctor of a server: whether it keeps what it acknowledges, shown on servers that do not."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.doctor.disk import file_system_of, judge_file_system, judge_space
from app.doctor.findings import Level, amount, span
from app.doctor.patient import Patient
from tests.doctor.conftest import OpenPatient, level, look, patient_of
from tests.system.own_postgres import OwnPostgres, open_own_postgres

if TYPE_CHECKING:
    from tests.database import Admin


async def _set(admin: "Admin", name: str, value: str) -> None:
    await admin.execute(f"alter system set {name} = '{value}'")
    await admin.execute("select pg_reload_conf()")
    # Each session takes a reload over at its next command: the first may still be an old one's.
    for _ in range(100):
        if await admin.fetchval("select setting from pg_settings where name = $1", name) == value:
            return
        await admin.execute("select pg_sleep(0.02)")


@pytest.mark.parametrize("name", ["fsync", "full_page_writes", "synchronous_commit"])
async def test_a_server_that_loses_commits_is_wrong(patient: Patient, name: str) -> None:
    (finding,) = await look(patient, name)
    assert finding.level is Level.WRONG
    assert f"{name} = on" in finding.advice


@pytest.mark.parametrize("name", ["fsync", "full_page_writes", "synchronous_commit"])
async def test_a_server_that_keeps_commits_is_good(durable: OwnPostgres, name: str) -> None:
    async with patient_of(durable.url) as healthy:
        assert await level(healthy, name) is Level.GOOD


async def test_commits_that_are_lost_for_one_role_alone_are_seen(
    durable: OwnPostgres, durable_admin: "Admin"
) -> None:
    await durable_admin.execute("alter role postgres set synchronous_commit = off")
    try:
        async with patient_of(durable.url) as opened:
            assert await level(opened, "synchronous_commit") is Level.WRONG
    finally:
        await durable_admin.execute("alter role postgres reset synchronous_commit")


async def test_that_an_unsafe_server_is_allowed_is_told(opening: OpenPatient) -> None:
    async with opening(database={"allow_unsafe": True}) as opened:
        assert await level(opened, "allow_unsafe") is Level.WARNING
    async with opening() as opened:
        assert await level(opened, "allow_unsafe") is Level.GOOD


async def test_a_primary_of_a_known_version_is_good(patient: Patient) -> None:
    assert await level(patient, "server_version") is Level.GOOD


async def test_a_standby_is_wrong() -> None:
    async with open_own_postgres() as own:
        await own.kill()
        (folder,) = (own.command[n + 1] for n, part in enumerate(own.command) if part == "-D")
        signal = Path(folder) / "standby.signal"
        signal.touch()
        os.chown(signal, own.runner.owner_uid, own.runner.owner_gid)
        await own.start()
        async with patient_of(own.url, database={"role": ""}) as opened:
            (finding,) = await look(opened, "server_version")
    assert finding.level is Level.WRONG
    assert "standby" in finding.text


async def test_a_commit_that_waits_for_nobody_is_wrong_and_its_hanging_is_seen(
    durable: OwnPostgres, durable_admin: "Admin"
) -> None:
    async with patient_of(
        durable.url,
        database={
            "command_seconds_max": 0.5,
            "statement_timeout_ms": 400,
            "lock_timeout_ms": 200,
        },
    ) as opened:
        assert await level(opened, "standby") is Level.GOOD
        await _set(durable_admin, "synchronous_standby_names", "missing")
        (finding,) = await look(opened, "standby")
        assert finding.level is Level.WRONG
        assert "hangs" in finding.text
        (finding,) = await look(opened, "commit_latency")
    assert finding.level is Level.WRONG
    assert "did not end" in finding.text


async def test_a_disk_that_is_too_slow_is_wrong_and_one_that_is_slow_is_told(
    durable: OwnPostgres, durable_admin: "Admin"
) -> None:
    # The server waits as long as a slow disk would before it flushes.
    await _set(durable_admin, "commit_siblings", "0")
    for delay, expected in ((60_000, Level.WRONG), (10_000, Level.WARNING)):
        await _set(durable_admin, "commit_delay", str(delay))
        async with patient_of(durable.url) as opened:
            (finding,) = await look(opened, "commit_latency")
        assert finding.level is expected, finding
        assert "slow" in finding.text


async def test_the_commits_that_are_measured_are_flushed_and_leave_nothing(
    durable: OwnPostgres, durable_admin: "Admin"
) -> None:
    flushed = "select pg_current_wal_flush_lsn()"
    before = await durable_admin.fetchval(flushed)
    async with patient_of(durable.url) as opened:
        (finding,) = await look(opened, "commit_latency")
    assert "p50" in finding.text
    assert await durable_admin.fetchval(f"select ({flushed}) > $1::pg_lsn", before)
    assert await durable_admin.fetchval("select count(*) from sink.event") == 0


async def test_latency_without_a_flush_says_nothing_of_a_disk(patient: Patient) -> None:
    (finding,) = await look(patient, "commit_latency")
    assert finding.level is Level.WARNING
    assert "nothing is flushed" in finding.text


async def test_a_server_whose_data_lies_in_memory_is_wrong(
    patient: Patient, admin: "Admin"
) -> None:
    folder = Path(await admin.fetchval("show data_directory"))
    (finding,) = await look(patient, "file_system")
    in_memory = folder.is_relative_to("/dev/shm")
    assert (finding.level is Level.WRONG) is in_memory


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("ext4", Level.GOOD),
        ("xfs", Level.GOOD),
        ("tmpfs", Level.WRONG),
        ("overlay", Level.WARNING),
        ("nfs4", Level.WARNING),
        ("fuse.sshfs", Level.WARNING),
        ("9p", Level.WARNING),
    ],
)
def test_file_systems_are_judged_by_what_survives_on_them(kind: str, expected: Level) -> None:
    assert judge_file_system(kind).level is expected


def test_a_folder_lies_on_the_last_and_longest_mount_above_it() -> None:
    mounts = """overlay / overlay rw 0 0
/dev/sda /var ext4 rw 0 0
tmpfs /var/lib/pg\\040data tmpfs rw 0 0
/dev/sdb /var/lib/pg ext4 rw 0 0
server:/x /var/lib/pg nfs4 rw 0 0
"""
    for folder, kind in (
        ("/etc", "overlay"),
        ("/var/lib", "ext4"),
        ("/variant", "overlay"),
        ("/var/lib/pg data/base", "tmpfs"),
        ("/var/lib/pg/base", "nfs4"),
    ):
        assert file_system_of(Path(folder), mounts=mounts) == kind


async def test_little_room_is_told_and_none_is_wrong(patient: Patient, admin: "Admin") -> None:
    assert judge_space(free=1 << 29, total=1 << 40).level is Level.WRONG
    assert judge_space(free=50 << 30, total=1 << 40).level is Level.WARNING
    assert judge_space(free=1 << 39, total=1 << 40).level is Level.GOOD
    folder = await admin.fetchval("show data_directory")
    (finding,) = await look(patient, "disk_space")
    assert amount(shutil.disk_usage(folder).total) in finding.text


async def test_the_disk_of_another_machine_is_not_guessed_at(
    durable: OwnPostgres, durable_admin: "Admin"
) -> None:
    await durable_admin.execute("create role blind login")
    try:
        url = durable.url.replace("postgres@", "blind@")
        async with patient_of(url, database={"role": ""}) as opened:
            assert await level(opened, "file_system") is Level.SKIPPED
            assert await level(opened, "disk_space") is Level.SKIPPED
    finally:
        await durable_admin.execute("drop role blind")


async def test_a_server_that_is_not_there_is_wrong_and_not_named() -> None:
    url = "postgresql://someone:canarypassword@canaryhost.invalid/x"
    async with patient_of(url) as opened:
        (finding,) = await look(opened, "connection")
    assert finding.level is Level.WRONG
    assert "canary" not in f"{finding}"


async def test_a_role_that_does_not_exist_is_told_apart(opening: OpenPatient) -> None:
    async with opening(database={"role": "nobody_such"}) as opened:
        (finding,) = await look(opened, "connection")
    assert finding.level is Level.WRONG
    assert "role" in finding.text


def test_lengths_and_amounts_are_written_for_people() -> None:
    assert [span(s) for s in (0.0004, 0.04, 12, 90, 200, 9000, 400_000)] == [
        "0.4 ms",
        "40 ms",
        "12 s",
        "90 s",
        "3.33 min",
        "2.5 h",
        "4.63 days",
    ]
    assert [amount(n) for n in (7, 2_000, 3e9, 4e12)] == ["7 bytes", "2 kB", "3 GB", "4 TB"]
