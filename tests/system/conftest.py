"""A rig of real processes on a database of its own, and a receiver for what they deliver."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest

from app.engine.keys import create_key
from tests.receiver import Receiver, open_receiver
from tests.system.rig import REQUEST_SECONDS_MAX, WORKING, Rig

if TYPE_CHECKING:
    from app.engine.database import Pool


def configuration(
    url: str,
    *,
    poll_seconds: float = 1.0,
    timeout_seconds: float = 5.0,
    drain_seconds: float = 5.0,
    more: str = "",
) -> str:
    """Short times, so that what has to pass passes soon."""
    return f"""
[database]
allow_unsafe = true
pool_max = 6

[queues.support]
attempts_max = 10
backoff_seconds = 0.1
backoff_seconds_max = 0.3

[destinations.crm]
kind = "webhook"
url = "{url}"
timeout_seconds = {timeout_seconds}
attempts_max = 50
backoff_seconds = 0.1
backoff_seconds_max = 0.3

[delivery]
lease_margin_seconds = 1
poll_seconds = {poll_seconds}

[sweep]
interval_seconds = 0.2

[server]
drain_seconds = {drain_seconds}

[network]
allow = ["127.0.0.0/8"]
{more}"""


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """Where the destination `crm` is."""
    async with open_receiver() as opened:
        yield opened


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """Connections that are not kept: a fault is met by a new one, as by another provider's."""
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS_MAX)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as opened:
        yield opened


@pytest.fixture
async def rig(
    tmp_path: Path,
    database_url: str,
    pool: "Pool",
    receiver: Receiver,
    session: aiohttp.ClientSession,
) -> AsyncIterator[Rig]:
    """Nothing runs yet; the key may do everything but decide."""
    key = await create_key(pool, name="rig", scopes=WORKING, queues=None)
    opened = Rig(tmp_path, database_url, key, session)
    opened.configure(configuration(receiver.url))
    try:
        yield opened
    finally:
        await opened.close()
