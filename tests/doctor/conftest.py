"""A patient on the test's database, and one check at a time."""

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from pydantic import SecretStr

from app.doctor import CHECKS
from app.doctor.findings import Finding, Level
from app.doctor.patient import Patient, open_patient
from app.domain.ids import IdFactory
from app.engine.schema import upgrade
from app.settings import load_settings
from tests.engine.stories import Sink
from tests.system.own_postgres import OwnPostgres, open_own_postgres

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.database import Admin

OpenPatient = Callable[..., AbstractAsyncContextManager[Patient]]


@asynccontextmanager
async def patient_of(
    url: str, *, reach: bool = False, replicas: int = 1, **sections: Any
) -> AsyncIterator[Patient]:
    settings = load_settings(
        environ={}, overrides={"database_url": SecretStr(url), "config": None, **sections}
    )
    async with open_patient(settings, network=reach, replicas=replicas) as patient:
        yield patient


async def look(patient: Patient, code: str) -> Sequence[Finding]:
    """What one check finds."""
    (check,) = (one for one in CHECKS if one.code == code)
    return await check.make(patient)


async def level(patient: Patient, code: str) -> Level:
    """The level of a check that finds one thing."""
    (finding,) = await look(patient, code)
    return finding.level


@pytest.fixture
def opening(database_url: str) -> OpenPatient:
    """Opens a patient on the test's database: `opening(database={"role": ""}, replicas=3)`."""

    def open_(**sections: Any) -> AbstractAsyncContextManager[Patient]:
        return patient_of(database_url, **sections)

    return open_


@pytest.fixture
async def patient(opening: OpenPatient) -> AsyncIterator[Patient]:
    """A patient with the destination `crm`, a loopback, and nothing wrong but a server that is not durable."""
    async with opening(destinations={"crm": {"kind": "loopback"}}) as opened:
        yield opened


@pytest.fixture
async def sink(pool: "Pool", ids: IdFactory, jitter: random.Random) -> Sink:
    """The engine's verbs, to bring about what the doctor finds."""
    return Sink(pool, ids, jitter)


@pytest.fixture(scope="module")
async def durable() -> AsyncIterator[OwnPostgres]:
    """A server of its own that keeps what it acknowledges, with a schema."""
    settings = (
        "max_prepared_transactions=2",
        "max_connections=40",
        "track_commit_timestamp=off",
    )
    async with open_own_postgres(*settings) as own:
        await upgrade(own.url)
        yield own


@pytest.fixture
async def durable_admin(durable: OwnPostgres) -> "AsyncIterator[Admin]":
    """Its superuser. What a test sets for the server is taken back."""
    connection = await asyncpg.connect(durable.url)
    try:
        yield connection
    finally:
        await connection.execute("alter system reset all")
        await connection.execute("select pg_reload_conf()")
        await connection.close()
