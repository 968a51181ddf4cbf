"""A pooler in between: what the service needs of it is looked at before anything leans on it, and refused in words.

A pooler that lends a connection for one transaction keeps nothing of a session: no settings, no prepared statements, no
listening. Taken for Postgres itself it breaks some calls, now and then; so it is found out at the start.
"""

import logging

import asyncpg

from app.domain.errors import SinksweepError
from app.engine.database import DatabaseOptions
from app.engine.link import Behaviour, hears_itself, keeps_settings, watch_link
from app.engine.schema import NOT_OUR_ROLE
from app.engine.transaction import DatabaseUnavailable

log = logging.getLogger(__name__)

_AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
_USE = 'set database.pooler = "transaction" and database.direct_url, or connect past it'


class WrongPooler(SinksweepError):
    """What stands between the service and Postgres does not do what the configuration says of it."""


def refusal(error: BaseException | None) -> WrongPooler | None:
    """What a pooler meant by an error while connecting, if one said it."""
    text = str(error) if isinstance(error, asyncpg.PostgresError) else ""
    if "unsupported startup parameter" in text:
        return WrongPooler(f"a pooler answers, and it takes no settings for a session: {_USE}")
    return None


async def check_pooler(options: DatabaseOptions) -> None:
    """Raise `WrongPooler` unless connections behave as configured; warn of what is only slower.

    Raises `DatabaseUnavailable` when there is nobody to be looked at.
    """
    try:
        seen = await watch_link(options)
        kept = options.pooled or await keeps_settings(options)
    except asyncpg.ConnectionDoesNotExistError as error:
        # A pooler that does not take the beginning of a transaction ends the connection over it.
        if options.pooled:
            message = "the pooler takes no transaction: it needs pool_mode = transaction"
            raise WrongPooler(message) from error
        raise DatabaseUnavailable from error
    except _AWAY as error:
        if isinstance(error, NOT_OUR_ROLE):
            # On a server without a schema: who looks for that says what is to be done.
            return
        raise refusal(error) or DatabaseUnavailable from error
    if options.pooled:
        _check_pooled(options, seen)
        await _check_direct(options)
    elif seen.is_shared:
        raise WrongPooler(f"sessions do not last here, a pooler lends them: {_USE}")
    elif not kept:
        raise WrongPooler(f"what is set for a session does not stick, a pooler drops it: {_USE}")


def _check_pooled(options: DatabaseOptions, seen: Behaviour) -> None:
    if options.keeps_statements and not seen.keeps_statements:
        message = (
            "prepared statements vanish behind the pooler: pgbouncer keeps them from 1.21 on, with "
            "max_prepared_statements above 0; else leave database.pooler_keeps_statements out"
        )
        raise WrongPooler(message)
    if not seen.is_pooled:
        log.warning(
            "database.pooler names a pooler, and Postgres itself answers: correct, but slower"
        )


async def _check_direct(options: DatabaseOptions) -> None:
    slower = "other processes are not heard, and what they do is found by polling, within a second"
    direct = options.direct
    if direct is None:
        log.warning("without database.direct_url %s", slower)
        return
    try:
        heard = await hears_itself(direct)
    except _AWAY as error:
        told = refusal(error)
        why = str(told) if told else f"it does not answer ({type(error).__name__})"
        log.warning("database.direct_url does not lead to Postgres: %s; %s", why, slower)
    else:
        if not heard:
            log.warning("database.direct_url leads to a pooler, which tells nothing: %s", slower)
