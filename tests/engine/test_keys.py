"""A key is shown once, stands for one principal, and is nobody's once it is revoked or over."""

import re
from typing import TYPE_CHECKING

import asyncpg
import pytest

from app.engine import keys

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.conftest import Travel
    from tests.database import Admin


async def test_a_key_stands_for_who_it_was_made_for(pool: "Pool") -> None:
    key = await keys.create_key(pool, name="crm", scopes=["accept", "read"], queues=["a", "b"])
    principal = await keys.find_principal(pool, key)
    assert principal is not None
    assert principal.key_id == keys.key_id_of(key)
    assert principal.scopes == {"accept", "read"}
    assert principal.sees("a")
    assert not principal.sees("c")


async def test_a_key_without_queues_sees_all(pool: "Pool") -> None:
    key = await keys.create_key(pool, name="root", scopes=["admin"], queues=None)
    principal = await keys.find_principal(pool, key)
    assert principal is not None
    assert principal.queues is None
    assert principal.sees("anything")


async def test_a_key_with_no_queues_sees_none(pool: "Pool") -> None:
    key = await keys.create_key(pool, name="none", scopes=["read"], queues=[])
    principal = await keys.find_principal(pool, key)
    assert principal is not None
    assert not principal.sees("default")


async def test_only_a_hash_of_a_key_is_stored(pool: "Pool", admin: "Admin") -> None:
    key = await keys.create_key(pool, name="a", scopes=["read"], queues=None)
    row = await admin.fetchrow("select * from sink.api_key")
    assert row is not None
    secret = key[-43:]
    assert not any(secret in str(value) or secret.encode() in _bytes(value) for value in row)


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""


def test_a_key_has_256_random_bits_and_one_form() -> None:
    made = {keys.new_key() for _ in range(100)}
    assert len({key for _, key in made}) == len({key_id for key_id, _ in made}) == 100
    for key_id, key in made:
        assert re.fullmatch(r"sks_[0-9a-v]{16}_[\w-]{43}", key)
        assert keys.key_id_of(key) == key_id


@pytest.mark.parametrize("wrong", ["", "sks_", "x" * 64, "sks_0123456789abcdef_short"])
async def test_what_is_no_key_is_nobodys(pool: "Pool", wrong: str) -> None:
    assert keys.key_id_of(wrong) is None
    assert await keys.find_principal(pool, wrong) is None


async def test_the_id_of_a_key_with_another_secret_is_nobodys(pool: "Pool") -> None:
    key = await keys.create_key(pool, name="a", scopes=["read"], queues=None)
    _, other = keys.new_key()
    forged = f"sks_{keys.key_id_of(key)}_{other[-43:]}"
    assert await keys.find_principal(pool, forged) is None


async def test_a_revoked_key_is_nobodys_and_stays_listed(pool: "Pool") -> None:
    key = await keys.create_key(pool, name="a", scopes=["read"], queues=None)
    key_id = keys.key_id_of(key)
    assert key_id is not None
    assert await keys.revoke_key(pool, key_id)
    assert await keys.find_principal(pool, key) is None
    first = (await keys.list_keys(pool))[0].revoked_at
    assert first is not None
    assert await keys.revoke_key(pool, key_id)
    assert (await keys.list_keys(pool))[0].revoked_at == first


async def test_revoking_what_is_not_there_says_so(pool: "Pool") -> None:
    assert not await keys.revoke_key(pool, "0" * 16)


async def test_a_key_is_over_with_its_life(pool: "Pool", travel: "Travel") -> None:
    key = await keys.create_key(pool, name="a", scopes=["read"], queues=None, life_seconds=60)
    await travel(59)
    assert await keys.find_principal(pool, key) is not None
    await travel(2)
    assert await keys.find_principal(pool, key) is None


async def test_a_given_key_is_kept(pool: "Pool") -> None:
    _, given = keys.new_key()
    assert await keys.create_key(pool, name="a", scopes=["read"], queues=None, key=given) == given
    assert await keys.find_principal(pool, given) is not None


async def test_keys_are_listed_without_their_secrets_the_oldest_first(
    pool: "Pool", travel: "Travel"
) -> None:
    for name in ("one", "two"):
        await keys.create_key(pool, name=name, scopes=["read"], queues=["q"])
        await travel(1)
    assert [view.name for view in await keys.list_keys(pool)] == ["one", "two"]


@pytest.mark.parametrize("scopes", [[], ["root"], ["read", "root"]])
async def test_a_key_has_scopes_that_exist(pool: "Pool", scopes: list[str]) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await keys.create_key(pool, name="a", scopes=scopes, queues=None)


@pytest.mark.parametrize("other", ["agent", "admin"])
async def test_whoever_proposes_never_decides(pool: "Pool", admin: "Admin", other: str) -> None:
    with pytest.raises(keys.ScopesApart, match="make two keys"):
        await keys.create_key(pool, name="both", scopes=["approve", other], queues=None)
    with pytest.raises(asyncpg.CheckViolationError, match="approves_apart"):
        await admin.execute(
            "insert into sink.api_key (id, name, hash, scopes) values ('k', 'both', sha256('x'), $1)",
            ["read", other, "approve"],
        )
    key = await keys.create_key(pool, name="r", scopes=["approve", "read", "accept"], queues=None)
    with pytest.raises(asyncpg.CheckViolationError, match="approves_apart"):
        await admin.execute(
            "update sink.api_key set scopes = scopes || $2 where id = $1",
            keys.key_id_of(key),
            [other],
        )
