"""A core over the test's database, with destinations that lead to real receivers."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from app.core import Core, open_core
from app.domain.ids import IdFactory
from app.settings import load_settings
from tests.engine.invariants import broken
from tests.engine.stories import Sink
from tests.receiver import Receiver, open_receiver

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.database import Admin

OpenCore = Callable[..., AbstractAsyncContextManager[Core]]

# Limits that one who dawdles exceeds soon.
IMPATIENT = {"lock_timeout_ms": 100, "statement_timeout_ms": 200}


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver that accepts everything, until told otherwise."""
    async with open_receiver() as opened:
        yield opened


def destination(receiver: Receiver, **changes: Any) -> dict[str, Any]:
    """A webhook destination without a secret, quick to try again."""
    return {
        "kind": "webhook",
        "url": receiver.url,
        "secrets": [],
        "backoff_seconds": 0.0,
        "timeout_seconds": 2.0,
        **changes,
    }


@pytest.fixture
def opening(database_url: str) -> OpenCore:
    """Opens a core with these destinations: `opening({"crm": {...}}, server={...})`."""

    @asynccontextmanager
    async def open_(destinations: dict[str, Any], **sections: Any) -> AsyncIterator[Core]:
        settings = load_settings(
            environ={},
            overrides={
                "destinations": destinations,
                "network": {"allow": ["127.0.0.0/8"]},
                "database_url": SecretStr(database_url),
                **sections,
            },
        )
        async with open_core(settings, application_name="sinksweep-test") as core:
            yield core

    return open_


@pytest.fixture
async def sink(
    pool: "Pool", admin: "Admin", ids: IdFactory, jitter: random.Random
) -> AsyncIterator[Sink]:
    """The engine's verbs, to bring about what the workers find."""
    yield Sink(pool, ids, jitter)
    assert await broken(admin) == {}


@asynccontextmanager
async def dawdling(admin: "Admin", table: str = "resend") -> AsyncIterator[None]:
    """Whoever looks into the table exceeds every limit, as behind very many dead entries."""
    await admin.execute(
        f"""
        alter table sink.{table} rename to kept;
        create function sink.dawdle() returns setof sink.kept language plpgsql as
        $$ begin perform pg_sleep(60); return query select * from sink.kept; end $$;
        create view sink.{table} as select * from sink.dawdle();
        grant select on sink.{table} to sinksweep_app
        """
    )
    try:
        yield
    finally:
        await admin.execute(
            f"""
            drop view sink.{table};
            drop function sink.dawdle();
            alter table sink.kept rename to {table}
            """
        )
