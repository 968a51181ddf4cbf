"""The doctor of the tables: which they are, who may change them, and whether they are kept clean."""

from typing import TYPE_CHECKING

import pytest

from app.doctor import schema, sessions
from app.doctor.findings import Level
from app.doctor.patient import Patient
from app.engine.diagnose import expected_indexes
from tests.database import Server
from tests.doctor.conftest import OpenPatient, level, look, patient_of
from tests.system.own_postgres import OwnPostgres

if TYPE_CHECKING:
    from tests.database import Admin


async def test_a_schema_that_fits_is_good_and_one_that_is_behind_or_ahead_is_wrong(
    patient: Patient, admin: "Admin"
) -> None:
    assert await level(patient, "migrations") is Level.GOOD
    for revision, words in (("0001", "migrate"), ("9999", "newer")):
        await admin.execute("update sink.alembic_version set version_num = $1", revision)
        (finding,) = await look(patient, "migrations")
        assert finding.level is Level.WRONG
        assert words in finding.text


async def test_a_database_without_a_schema_is_wrong(postgres: Server) -> None:
    async with (
        postgres.database(template="template0") as url,
        patient_of(url) as opened,
    ):
        assert await level(opened, "migrations") is Level.WRONG


async def test_all_indexes_are_expected_and_a_missing_or_broken_one_is_wrong(
    patient: Patient, admin: "Admin"
) -> None:
    assert await level(patient, "indexes") is Level.GOOD
    there = await admin.fetch("select indexname from pg_indexes where schemaname = 'sink'")
    assert {row[0] for row in there} == expected_indexes()
    await admin.execute("drop index sink.turn_queued")
    await admin.execute(
        "update pg_index set indisvalid = false where indexrelid = 'sink.outbox_due'::regclass"
    )
    missing, broken = await look(patient, "indexes")
    assert (missing.level, broken.level) == (Level.WRONG, Level.WRONG)
    assert "turn_queued" in missing.text
    assert "outbox_due" in broken.text


async def test_the_role_of_the_service_is_good_and_a_superuser_is_wrong(
    patient: Patient, opening: OpenPatient
) -> None:
    assert await level(patient, "privileges") is Level.GOOD
    async with opening(database={"role": ""}) as opened:
        (finding,) = await look(opened, "privileges")
    assert finding.level is Level.WRONG
    for power in ("superuser", "makes tables", "owns tables"):
        assert power in finding.text


@pytest.mark.parametrize(
    ("grant", "said"),
    [
        ("grant update on sink.event to sinksweep_app", "event"),
        ("grant truncate on sink.event to sinksweep_app", "event"),
        ("grant create on schema sink to sinksweep_app", "makes tables"),
        ("revoke insert on sink.turn from sinksweep_app", "turn"),
        ("revoke usage on schema sink from sinksweep_app", "may not use"),
    ],
)
async def test_a_role_that_may_too_much_or_too_little_is_wrong(
    patient: Patient, admin: "Admin", grant: str, said: str
) -> None:
    await admin.execute(grant)
    (finding,) = await look(patient, "privileges")
    assert finding.level is Level.WRONG
    assert said in finding.text


async def test_a_table_that_is_mostly_dead_is_told(patient: Patient, admin: "Admin") -> None:
    assert await level(patient, "bloat") is Level.GOOD
    await admin.execute(
        "insert into sink.tombstone select gen_random_uuid(), gen_random_uuid(), 'default', 'replied',"
        " now(), now() from generate_series(1, 11000)"
    )
    await admin.execute("delete from sink.tombstone")
    await admin.execute("select pg_stat_force_next_flush()")
    await admin.execute("select 1")
    (finding,) = await look(patient, "bloat")
    assert finding.level is Level.WARNING
    assert "tombstone has 11000 dead rows" in finding.text


async def test_a_table_that_nobody_may_clean_is_wrong(patient: Patient, admin: "Admin") -> None:
    await admin.execute("alter table sink.turn set (autovacuum_enabled = false)")
    (finding,) = await look(patient, "bloat")
    assert finding.level is Level.WRONG


async def test_a_server_without_autovacuum_is_wrong(
    durable: OwnPostgres, durable_admin: "Admin"
) -> None:
    async with patient_of(durable.url) as opened:
        assert await level(opened, "autovacuum") is Level.GOOD
        await durable_admin.execute("alter system set autovacuum = off")
        await durable_admin.execute("select pg_reload_conf()")
        found = await look(opened, "autovacuum")
        for _ in range(100):
            if found[0].level is Level.WRONG:
                break
            await durable_admin.execute("select pg_sleep(0.02)")
            found = await look(opened, "autovacuum")
    assert found[0].level is Level.WRONG


async def test_a_database_that_runs_out_of_ids_is_told_in_time(patient: Patient) -> None:
    assert await level(patient, "freezing") is Level.GOOD
    assert schema.judge_freezing(1_200_000_000).level is Level.WARNING
    assert schema.judge_freezing(1_900_000_000).level is Level.WRONG


async def test_a_long_transaction_is_told_with_who_holds_it(
    patient: Patient, admin: "Admin", monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await level(patient, "long_transactions") is Level.GOOD
    monkeypatch.setattr(sessions, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(sessions, "IDLE_SECONDS", 0.0)
    await admin.execute("set application_name = 'somebody''s psql'")
    async with admin.transaction():
        pid = await admin.fetchval("select pg_backend_pid()")
        found = await look(patient, "long_transactions")
    (mine,) = (finding for finding in found if f"pid {pid}" in finding.text)
    assert mine.level is Level.WRONG
    assert "somebody's psql" in mine.text
    assert f"pg_terminate_backend({pid})" in mine.advice


async def test_a_login_that_sees_only_itself_says_so(
    durable: OwnPostgres, durable_admin: "Admin"
) -> None:
    await durable_admin.execute("create role blind login")
    try:
        url = durable.url.replace("postgres@", "blind@")
        async with patient_of(url, database={"role": ""}) as opened:
            (finding,) = await look(opened, "long_transactions")
    finally:
        await durable_admin.execute("drop role blind")
    assert finding.level is Level.WARNING
    assert "pg_read_all_stats" in finding.advice


async def test_a_prepared_transaction_that_was_left_is_wrong(
    durable: OwnPostgres, durable_admin: "Admin", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "LONG_SECONDS", 0.0)
    async with patient_of(durable.url) as opened:
        assert await level(opened, "prepared_transactions") is Level.GOOD
        await durable_admin.execute("begin")
        await durable_admin.execute("create table left_over ()")
        await durable_admin.execute("prepare transaction 'left-by-somebody'")
        (finding,) = await look(opened, "prepared_transactions")
        await durable_admin.execute("rollback prepared 'left-by-somebody'")
    assert finding.level is Level.WRONG
    assert "left-by-somebody" in finding.text


async def test_a_slot_that_nobody_reads_is_told_and_one_that_holds_much_is_wrong(
    durable: OwnPostgres, durable_admin: "Admin", monkeypatch: pytest.MonkeyPatch
) -> None:
    async with patient_of(durable.url) as opened:
        assert await level(opened, "replication_slots") is Level.GOOD
        await durable_admin.execute("select pg_create_physical_replication_slot('gone', true)")
        (finding,) = await look(opened, "replication_slots")
        assert finding.level is Level.WARNING
        assert "gone" in finding.text
        await durable_admin.execute("create table log_is_written ()")
        monkeypatch.setattr(sessions, "HELD_BYTES_WRONG", 1)
        (finding,) = await look(opened, "replication_slots")
        await durable_admin.execute("select pg_drop_replication_slot('gone')")
    assert finding.level is Level.WRONG


@pytest.mark.parametrize(
    ("replicas", "expected"), [(1, Level.GOOD), (4, Level.WARNING), (50, Level.WRONG)]
)
async def test_replicas_that_want_more_connections_than_there_are_is_wrong(
    durable: OwnPostgres, replicas: int, expected: Level
) -> None:
    database = {"pool_max": 4, "reserved_connections": 1}
    async with patient_of(durable.url, replicas=replicas, database=database) as opened:
        assert await level(opened, "connections_left") is expected


async def test_the_limit_of_a_login_counts_too(
    durable: OwnPostgres, durable_admin: "Admin"
) -> None:
    await durable_admin.execute("create role narrow login connection limit 5")
    try:
        url = durable.url.replace("postgres@", "narrow@")
        async with patient_of(url, database={"role": ""}) as opened:
            (finding,) = await look(opened, "connections_left")
    finally:
        await durable_admin.execute("drop role narrow")
    assert finding.level is Level.WRONG
    assert "login" in finding.text
