"""A key is looked up once for all who ask at once, and remembered for a moment."""

import asyncio

import pytest

from app.api.auth import KNOWN_MAX, KNOWN_SECONDS, UNKNOWN_MAX, Authenticator
from app.api.problems import Refusal
from app.engine.keys import Principal
from tests.api.conftest import STRANGER


async def test_concurrent_requests_share_one_look_up_and_a_key_is_remembered_for_a_moment() -> None:
    asked: list[str] = []
    held = asyncio.Event()
    known = Principal("id", frozenset({"read"}), None)

    async def find(key: str) -> Principal | None:
        asked.append(key)
        await held.wait()
        return known if key != STRANGER else None

    key = "sks_0123456789abcdef_" + "y" * 43
    authenticator = Authenticator(find)
    headers = [(b"authorization", f"Bearer {key}".encode())]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(authenticator.principal(headers)) for _ in range(50)]
        while not asked:
            await asyncio.sleep(0)
        held.set()
    assert {task.result() for task in tasks} == {known}
    await authenticator.principal(headers)
    assert asked == [key]
    for _ in range(2):
        with pytest.raises(Refusal):
            await authenticator.principal([(b"authorization", f"Bearer {STRANGER}".encode())])
    assert asked == [key, STRANGER]


async def test_a_key_is_asked_for_once_however_it_is_spelled() -> None:
    asked: list[str] = []
    known = Principal("id", frozenset({"read"}), None)

    async def find(key: str) -> Principal | None:
        asked.append(key)
        return known

    key = "sks_0123456789abcdef_" + "y" * 43
    authenticator = Authenticator(find)
    for spelled in (f"bearer {key}", f"Bearer {key}", f"BEARER   {key} ", f"Bearer {key}"):
        headers = [(b"authorization", spelled.encode())]
        assert await authenticator.principal(headers) is known
    assert asked == [key]
    await asyncio.sleep(KNOWN_SECONDS)
    await authenticator.principal([(b"authorization", f"Bearer {key}".encode())])
    assert asked == [key, key]


async def test_keys_that_are_nobodys_do_not_push_out_those_of_somebody() -> None:
    asked: list[str] = []
    known = Principal("id", frozenset({"read"}), None)
    key = "sks_0123456789abcdef_" + "y" * 43

    async def find(wanted: str) -> Principal | None:
        asked.append(wanted)
        return known if wanted == key else None

    authenticator = Authenticator(find)

    async def ask(wanted: str) -> Principal:
        return await authenticator.principal([(b"authorization", f"Bearer {wanted}".encode())])

    await ask(key)
    for n in range(KNOWN_MAX + 1):
        with pytest.raises(Refusal):
            await ask(f"sks_0123456789abcdef_{n:043}")
    kept = authenticator._known._kept, authenticator._unknown._kept  # noqa: SLF001 - what is kept
    assert [len(one) for one in kept] == [1, UNKNOWN_MAX]


async def test_a_look_up_that_fails_fails_for_all_who_wait_and_is_not_remembered() -> None:
    asked = 0

    async def find(_key: str) -> Principal | None:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        raise ConnectionError

    headers = [(b"authorization", f"Bearer {STRANGER}".encode())]
    authenticator = Authenticator(find)

    async def attempt() -> bool:
        try:
            await authenticator.principal(headers)
        except ConnectionError:
            return False
        return True

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(attempt()) for _ in range(20)]
    assert not any(task.result() for task in tasks)
    assert asked == 1
    assert not await attempt()
    assert asked == 2
