"""What is looked at before the first request: the schema, what a commit stands on, and what is between."""

import asyncio
import logging
import time

from app.core import Core, database_options
from app.domain.errors import NotReady, SinksweepError
from app.engine.pooler import check_pooler, refusal
from app.engine.schema import check_schema, undurable

log = logging.getLogger(__name__)

START_SECONDS_MAX = 5.0
START_PAUSE_SECONDS = 0.5


class UndurableServer(SinksweepError):
    """The database would lose what it has acknowledged."""


async def check_database(core: Core) -> None:
    """Refuse to start on another schema, or on a server that loses commits, unless told to.

    A server that is just starting is waited for a moment, which is less than the start of another process.
    """
    unsafe = await _when_there(core)
    if unsafe and not core.settings.database.allow_unsafe:
        message = (
            f"this server acknowledges what it can lose: {', '.join(unsafe)}. Set it on, or set "
            "database.allow_unsafe = true for data that nobody needs"
        )
        raise UndurableServer(message)
    log.info(
        "a 2xx stands on a commit with %s",
        "fsync, full_page_writes and synchronous_commit on" if not unsafe else ", ".join(unsafe),
    )


async def _when_there(core: Core) -> list[str]:
    until = time.monotonic() + START_SECONDS_MAX
    options = database_options(core.settings)
    while True:
        try:
            await check_pooler(options)
            await check_schema(core.pool)
            return await undurable(core.pool)
        except NotReady as error:
            if refused := refusal(error.__cause__):
                raise refused from error
            if time.monotonic() > until:
                raise
            log.info("waiting for the database")
            await asyncio.sleep(START_PAUSE_SECONDS)
