"""An attempt ends in time whatever its channel does, and who cancels it is heard."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import pytest

from app.channels import (
    HERE,
    Address,
    Draft,
    Facts,
    Limits,
    NoLookup,
    Options,
    Outgoing,
    Probed,
    Reply,
    Secrets,
    Wire,
)
from app.core import Core
from app.domain.outcome import Delivered, Outcome, Unknown
from app.workers.attempts import attempt
from tests.channels.test_destinations import taken
from tests.workers.conftest import OpenCore

LOOPBACK = {"kind": "loopback", "timeout_seconds": 0.1}
# A tenth of a second, and half of the margin.
SECONDS = 0.6
MARGIN = {"lease_margin_seconds": 1}


class Hung(NoLookup):
    """Keeps what it is given for ever. When it is stopped it does `then`, and says that it was delivered."""

    kind: ClassVar = "loopback"
    Config = Options
    limits: ClassVar = Limits()
    answers: ClassVar = frozenset[str]()
    facts: ClassVar = Facts(key="-", lookup="-", receipt="-")

    def __init__(self, core: Core, then: Callable[[], object] | None = None) -> None:
        self._then = then
        self.begun = asyncio.Event()
        route = replace(core.routes["chat"], channel=self, config=Options())
        self.core = replace(core, routes={"chat": route})

    def secrets(self, config: Options) -> tuple[str, ...]:  # noqa: ARG002
        """None."""
        return ()

    def check(self, draft: Draft, *, reply: Reply | None, config: Options) -> Address:  # noqa: ARG002
        """Everything."""
        return HERE

    async def send(
        self,
        message: Outgoing,  # noqa: ARG002
        *,
        config: Options,  # noqa: ARG002
        secrets: Secrets,  # noqa: ARG002
        wire: Wire,  # noqa: ARG002
    ) -> Outcome:
        """Hang."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if self._then is None:
                raise
            self._then()
            await asyncio.sleep(0)
        return Delivered()

    async def probe(self, *, config: Options, secrets: Secrets, wire: Wire) -> Probed:  # noqa: ARG002
        """Nothing is wrong with it."""
        return Probed(good=True, words="")


async def test_a_channel_that_hangs_is_given_up_after_its_time_and_a_little_more(
    opening: OpenCore,
) -> None:
    loop = asyncio.get_running_loop()
    async with opening({"chat": LOOPBACK}, delivery=MARGIN) as core:
        channel, began = Hung(core), loop.time()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(attempt(channel.core, taken())) for _ in range(3)]
        assert [task.result() for task in tasks] == [Unknown("timeout")] * 3
        assert SECONDS - 0.01 <= loop.time() - began < SECONDS + 1
        seconds = core.metrics.registry.get_sample_value(
            "sinksweep_delivery_attempt_seconds_sum", {"destination": "chat"}
        )
        assert seconds is not None
        assert seconds >= 3 * (SECONDS - 0.01)


async def test_who_was_given_up_can_be_cancelled_and_wait_like_anybody(opening: OpenCore) -> None:
    async with opening({"chat": LOOPBACK}, delivery=MARGIN) as core:
        channel = Hung(core, then=lambda: None)
        task = asyncio.current_task()
        assert task is not None
        # It does as if nothing had happened, and what it says is what counts.
        assert isinstance(await attempt(channel.core, taken()), Delivered)
        assert not task.cancelling()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(5)


async def test_who_cancels_an_attempt_is_heard_before_its_time_and_at_it(opening: OpenCore) -> None:
    async with opening({"chat": LOOPBACK}, delivery=MARGIN) as core:
        cancels: list[Callable[[], object]] = []
        patient, cut_late = Hung(core), Hung(core, then=lambda: [one() for one in cancels])
        async with asyncio.TaskGroup() as group:
            early = group.create_task(attempt(patient.core, taken()))
            await patient.begun.wait()
            early.cancel()
            late = group.create_task(attempt(cut_late.core, taken()))
            # In the moment in which its time is over.
            cancels.append(late.cancel)
        assert early.cancelled()
        assert late.cancelled()
        cut = core.metrics.registry.get_sample_value(
            "sinksweep_delivery_attempts_total", {"destination": "chat", "outcome": "unknown"}
        )
        assert cut == 2
