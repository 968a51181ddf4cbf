"""The doctor of what stands between: a pooler is found, and told apart from one that the configuration knows."""

from app.doctor.findings import Level
from tests.doctor.conftest import level, look, patient_of
from tests.system.pgbouncer import KEEPS_STATEMENTS_FROM, open_pgbouncer, pgbouncer_version

# What a session asks for while it connects.
SETTINGS = (
    "role,search_path,timezone,statement_timeout,lock_timeout,"
    "idle_in_transaction_session_timeout,jit,plan_cache_mode,enable_seqscan"
)


async def test_a_transaction_pooler_that_nobody_told_of_is_wrong(database_url: str) -> None:
    async with (
        open_pgbouncer(database_url, ignores=SETTINGS) as url,
        patient_of(url, database={"role": ""}) as opened,
    ):
        (finding,) = await look(opened, "pooler")
    assert finding.level is Level.WRONG
    assert 'pooler = "transaction"' in finding.advice


async def test_a_pooler_that_takes_no_settings_is_told_apart_from_no_server(
    database_url: str,
) -> None:
    async with open_pgbouncer(database_url) as url, patient_of(url) as opened:
        (finding,) = await look(opened, "connection")
    assert finding.level is Level.WRONG
    assert "pooler" in finding.text


async def test_a_transaction_pooler_that_is_told_of_is_good_with_a_way_past_it(
    database_url: str,
) -> None:
    async with open_pgbouncer(database_url) as url:
        told = {"pooler": "transaction", "direct_url": database_url}
        async with patient_of(url, database=told) as opened:
            assert await level(opened, "connection") is Level.GOOD
            assert await level(opened, "pooler") is Level.GOOD
            assert await level(opened, "notifications") is Level.GOOD
            assert await level(opened, "privileges") is Level.GOOD
            (finding,) = await look(opened, "commit_latency")
            assert "p50" in finding.text
        told["direct_url"] = url
        async with patient_of(url, database=told) as opened:
            (finding,) = await look(opened, "notifications")
    assert finding.level is Level.WARNING


async def test_statements_that_the_pooler_loses_are_wrong_where_they_are_leaned_on(
    database_url: str,
) -> None:
    told = {"pooler": "transaction", "pooler_keeps_statements": True}
    async with open_pgbouncer(database_url) as url, patient_of(url, database=told) as opened:
        (finding,) = await look(opened, "pooler")
    # A newer one keeps 200 of them by itself from 1.24 on.
    keeps = pgbouncer_version() >= KEEPS_STATEMENTS_FROM
    assert (finding.level is Level.GOOD) is keeps or "prepared" in finding.text
