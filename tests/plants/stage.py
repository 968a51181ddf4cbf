"""Everybody around the service, the workers included: a short run that becomes a history."""

import contextlib
import uuid

from app.channels import webhook
from app.domain.model import Fact, Settlement, Taken
from app.domain.outcome import Answer, Unknown
from app.domain.retry import after_attempt
from app.engine import fact, settle
from tests.engine.stories import CRM, DELIVERY_POLICY, Sink
from tests.history.log import Answered, Healed, Received, encode, now
from tests.plants.notes import Failed
from tests.plants.waiting_people import DESK, Waiting

MAIL = "mail"
ROUNDS_MAX = 12

_OPEN = """
    select count(*) from sink.turn where state not in ('replied', 'undelivered', 'failed', 'cancelled')
"""


class Stage(Waiting):
    """The whole run. Its workers are at hand, so that a scenario may stop them anywhere."""

    # The workers and the receivers.

    async def deliver(
        self, status: int | None = 204, *, destination: str = CRM, sink: Sink | None = None
    ) -> list[Taken]:
        """Take what is due, send it to a receiver that answers all with this, and write that down."""
        taken = await (sink or self.sink).take(destination=destination)
        for one in taken:
            self.receive(one, status)
        await self.settle(taken, status, sink=sink)
        return taken

    async def deliver_resends(self, status: int = 204, *, destination: str = CRM) -> None:
        """Send once more what somebody wanted."""
        for one in await self.sink.take_resends(destination=destination):
            self.receive(one.taken, status)
            verdict = self._settlement(one.taken, status).verdict
            await self.sink.settle_resends((one, verdict))

    def receive(self, one: Taken, status: int | None) -> None:
        """A message arrives and is answered; None: its connection is cut."""
        request = uuid.uuid4().hex
        body = encode(one.body)
        kind = one.content_type
        self.note(Received(request, now(), one.destination, one.key, body, True, one.key, kind))
        self.note(Answered(request, now(), status))

    async def settle(
        self, taken: list[Taken], status: int | None, *, sink: Sink | None = None
    ) -> None:
        """Write down what these attempts ended in, as a worker does."""
        pool = (sink or self.sink).pool
        settlements = [self._settlement(one, status) for one in taken]
        for one, done in zip(taken, await settle.settle(pool, settlements), strict=True):
            if not done.held and status is not None and status // 100 == 2:
                await fact.record_facts(pool, [Fact(one.message, one.attempt_id, None, status)])

    def _settlement(self, one: Taken, status: int | None) -> Settlement:
        outcome = (
            Unknown("cut") if status is None else webhook._judge(Answer(status), after_seconds=None)  # noqa: SLF001
        )
        verdict = after_attempt(
            outcome,
            attempts_used=one.attempts_used,
            may_have_arrived=one.may_have_arrived,
            age_seconds=one.age_seconds,
            policy=DELIVERY_POLICY,
            jitter=0.0,
        )
        return Settlement(one.message, one.attempt_id, verdict)

    async def sweep(self, *, sink: Sink | None = None) -> None:
        """One pass; what it cannot do, the next one may."""
        one = sink or self.sink
        for chore in (one.sweep_turns, one.sweep_messages, one.sweep_resends):
            with contextlib.suppress(*Failed):
                await chore()

    async def rest(self) -> None:
        """No more faults: everybody does his work until nothing is left of it, or for long enough."""
        for _ in range(ROUNDS_MAX):
            await self.travel(61)
            await self.sweep()
            await self.sink.due()
            await self.deadlines()
            for held in await self.claim("last", turns_max=20):
                await self.seal(held, "at last")
            for destination in (CRM, MAIL, DESK):
                await self.deliver(destination=destination)
                await self.deliver_resends(destination=destination)
            if not await self.admin.fetchval(_OPEN):
                break
        self.note(Healed(now()))
