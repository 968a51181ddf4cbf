"""API keys: 256 random bits shown once, of which only a hash is stored."""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from app.domain.errors import SinksweepError
from app.domain.scopes import PROPOSING
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

_FORM = re.compile(r"sks_([0-9a-v]{16})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls: a key's public id, what it may do, and the queues it sees (None is all)."""

    key_id: str
    scopes: frozenset[str]
    queues: frozenset[str] | None

    def sees(self, queue: str) -> bool:
        """Whether a queue exists for this key."""
        return self.queues is None or queue in self.queues


@dataclass(frozen=True, slots=True)
class KeyView:
    """A key as a list shows it."""

    id: str
    name: str
    scopes: Sequence[str]
    queues: Sequence[str] | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class ScopesApart(SinksweepError):
    """What approves must not propose."""

    def __init__(self) -> None:
        super().__init__(
            "whoever proposes never decides: a key with approve has neither agent nor admin; make two keys"
        )


def new_key() -> tuple[str, str]:
    """A new key: its public id, and the key itself."""
    key_id = base64.b32hexencode(secrets.token_bytes(10)).decode().lower()
    return key_id, f"sks_{key_id}_{secrets.token_urlsafe(32)}"


def key_id_of(key: str) -> str | None:
    """The public id inside a key; None for what cannot be one, without asking the database."""
    match = _FORM.fullmatch(key)
    return match[1] if match else None


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


async def create_key(
    pool: "Pool",
    *,
    name: str,
    scopes: Sequence[str],
    queues: Sequence[str] | None,
    life_seconds: float | None = None,
    key: str | None = None,
) -> str:
    """Make a key and return it, for the only time. A given `key` is kept instead of a new one.

    Raises `ScopesApart` for one that could approve what it proposed.
    """
    if "approve" in scopes and not PROPOSING.isdisjoint(scopes):
        raise ScopesApart
    key_id, made = new_key() if key is None else (key_id_of(key), key)

    async def work(connection: "Link") -> None:
        await SQL["add_key"].run(
            connection,
            id=key_id,
            name=name,
            hash=_hash(made),
            scopes=list(scopes),
            queues=None if queues is None else list(queues),
            life_seconds=life_seconds,
        )

    await transact(pool, work, explicit=False)
    return made


async def find_principal(pool: "Pool", key: str) -> Principal | None:
    """Who this key stands for; None if it is unknown, revoked or over."""
    key_id = key_id_of(key)
    if key_id is None:
        return None

    async def work(connection: "Link") -> "list[Record]":
        return await SQL["find_key"].rows(connection, id=key_id)

    for row in await transact(pool, work, explicit=False):
        if hmac.compare_digest(row["hash"], _hash(key)):
            queues = None if row["queues"] is None else frozenset(row["queues"])
            return Principal(row["id"], frozenset(row["scopes"]), queues)
    return None


async def list_keys(pool: "Pool") -> list[KeyView]:
    """Every key, the oldest first."""

    async def work(connection: "Link") -> list[KeyView]:
        rows = await SQL["list_keys"].rows(connection)
        return [KeyView(**{name: row[name] for name in KeyView.__slots__}) for row in rows]

    return await transact(pool, work, explicit=False)


async def revoke_key(pool: "Pool", key_id: str) -> bool:
    """Revoke a key; False if there is none."""

    async def work(connection: "Link") -> bool:
        return bool(await SQL["revoke_key"].rows(connection, id=key_id))

    return await transact(pool, work, explicit=False)
