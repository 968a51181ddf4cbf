"""One name that resolves slowly is nobody else's trouble."""

import asyncio
import gc
import logging
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from ipaddress import IPv4Address, ip_network
from typing import Any

import pytest

from app.channels import Outgoing, Wire
from app.channels.webhook import WebhookConfig, channel
from app.domain.outcome import RetryLater
from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient
from app.wire.exchange import RESOLVER_BUSY, Answered, Exchange, NotSent
from app.wire.resolution import (
    RESOLUTION_THREADS_MAX,
    Refused,
    SystemResolver,
    VettedResolver,
)
from tests.wire.names import Names
from tests.wire.servers import LOOPBACK, OK, Serve, answering, post

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MESSAGE = Outgoing(
    id="msg_1",
    key="key_1",
    destination="crm",
    queue="q",
    conversation=None,
    recipient=None,
    headers={},
    content_type="application/json",
    body=b"{}",
    sealed_at=NOW,
    expires_at=None,
    attempt=1,
    attempted_at=NOW,
    first_attempted_at=NOW,
)
HERE = [IPv4Address("127.0.0.1")]


class System:
    """The system's resolver: names that begin with `slow` have no answer before `answer` is set."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.answer = threading.Event()
        self.error: OSError | None = None

    def getaddrinfo(self, host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        self.asked[host] += 1
        if host.startswith("slow"):
            assert self.answer.wait(30)
            if self.error is not None:
                raise self.error
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    stand_in = System()
    monkeypatch.setattr("app.wire.resolution.socket.getaddrinfo", stand_in.getaddrinfo)
    yield stand_in
    stand_in.answer.set()


@pytest.fixture
def resolver(system: System) -> Iterator[SystemResolver]:
    opened = SystemResolver()
    yield opened
    system.answer.set()
    opened.close()


async def never_stored(message: Outgoing) -> int:
    raise AssertionError(message.key)


async def until(seen: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not seen():
            await asyncio.sleep(0.005)


async def test_a_slow_name_keeps_no_other_name_from_its_address(
    serve: Serve, system: System
) -> None:
    server = await serve(answering(OK, close=True))
    async with GuardedClient(LOOPBACK) as client, asyncio.TaskGroup() as tasks:
        slow = [
            tasks.create_task(post(client, port, host="slow.example", timeout_seconds=20))
            for port in (80, server.port)
            for _ in range(RESOLUTION_THREADS_MAX)
        ]
        await until(lambda: system.asked["slow.example"] > 0)
        for _ in range(5):
            exchange = await post(client, server.port, host="fast.example", timeout_seconds=3)
            assert isinstance(exchange, Answered)
        assert system.asked["slow.example"] == 1
        for task in slow:
            task.cancel()


async def test_all_who_ask_for_a_name_meanwhile_get_one_answer_and_the_next_asks_anew(
    system: System, resolver: SystemResolver
) -> None:
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(resolver("slow.example", port=port)) for port in (80, 80, 443)]
        await until(lambda: system.asked["slow.example"] > 0)
        late = tasks.create_task(resolver("slow.example", port=80))
        await asyncio.sleep(0)
        system.answer.set()
    assert [task.result() for task in (*asking, late)] == [HERE] * 4
    assert system.asked["slow.example"] == 1
    assert await resolver("slow.example", port=80) == HERE
    assert system.asked["slow.example"] == 2


async def test_each_who_waited_judges_the_shared_answer(
    system: System, resolver: SystemResolver
) -> None:
    open_one = VettedResolver(resolver, policy=LOOPBACK)
    strict = VettedResolver(resolver, policy=AddressPolicy((ip_network("127.0.0.2/32"),)))

    async def refused() -> str:
        with pytest.raises(Refused) as caught:
            await strict.resolve("slow.example", 80)
        return caught.value.reason

    async with asyncio.TaskGroup() as tasks:
        found = tasks.create_task(open_one.resolve("slow.example", 443))
        reason = tasks.create_task(refused())
        await until(lambda: system.asked["slow.example"] > 0)
        system.answer.set()
    assert found.result() == HERE
    assert reason.result() == "address_denied"
    assert system.asked["slow.example"] == 1


async def test_waiting_for_a_thread_is_no_failure_of_the_name(
    serve: Serve, system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.wire.resolution.QUEUE_SECONDS_MAX", 0.1)
    server = await serve(answering(OK, close=True))
    async with GuardedClient(LOOPBACK) as client, asyncio.TaskGroup() as tasks:
        slow = [
            tasks.create_task(post(client, server.port, host=f"slow{number}.example"))
            for number in range(RESOLUTION_THREADS_MAX)
        ]
        await until(lambda: len(system.asked) == RESOLUTION_THREADS_MAX)
        for _ in range(2):
            exchange = await post(client, server.port, host="fast.example")
            assert exchange == NotSent(RESOLVER_BUSY)
        system.answer.set()
        assert isinstance(await post(client, server.port, host="fast.example"), Answered)
    assert all(isinstance(task.result(), Answered) for task in slow)


async def test_waiting_for_a_thread_costs_a_delivery_no_attempt() -> None:
    names = Names(Refused(RESOLVER_BUSY), OSError("no"))
    config = WebhookConfig(url="http://crm.example/")
    async with GuardedClient(LOOPBACK, resolver=names) as client:
        wire = Wire(http=client, store=never_stored)
        outcomes = [
            await channel.send(MESSAGE, config=config, secrets=(), wire=wire) for _ in range(2)
        ]
    assert outcomes == [
        RetryLater("resolver_busy", counted=False),
        RetryLater("dns_failed", counted=True),
    ]


async def test_who_gives_up_takes_the_answer_from_nobody(
    system: System, resolver: SystemResolver
) -> None:
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(resolver("slow.example", port=80))
        second = tasks.create_task(resolver("slow.example", port=80))
        await until(lambda: system.asked["slow.example"] > 0)
        first.cancel()
        await until(first.done)
        system.answer.set()
    assert second.result() == HERE


async def test_a_failure_that_nobody_waits_for_any_more_is_passed_over_in_silence(
    system: System, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.wire.resolution.RESOLUTION_THREADS_MAX", 1)
    resolver = SystemResolver()
    async with asyncio.TaskGroup() as tasks:
        only = tasks.create_task(resolver("slow.example", port=80))
        await until(lambda: system.asked["slow.example"] > 0)
        only.cancel()
    del only
    system.error = socket.gaierror("no")
    system.answer.set()
    # The one thread takes this name when it is done with the other.
    assert await resolver("fast.example", port=80) == HERE
    gc.collect()
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
    with pytest.raises(OSError, match="no"):
        await resolver("slow.example", port=80)
    resolver.close()


async def test_closing_ends_those_who_wait_for_a_thread(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.wire.resolution.QUEUE_SECONDS_MAX", 30)
    asking: list[asyncio.Task[Exchange]] = []
    async with asyncio.TaskGroup() as tasks:
        async with GuardedClient(LOOPBACK) as client:
            for number in range(RESOLUTION_THREADS_MAX + 1):
                name = f"slow{number}.example"
                asking.append(tasks.create_task(post(client, 80, host=name)))
            await until(lambda: len(system.asked) == RESOLUTION_THREADS_MAX)
        waiting = asking[-1]
        await until(waiting.done)
        assert waiting.result() == NotSent("client_closed")
        for task in asking:
            task.cancel()
