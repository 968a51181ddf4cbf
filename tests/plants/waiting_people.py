"""Those who wait and those who are waited for: agents that hold, park and follow up, approvers, and events."""

from collections.abc import Sequence
from typing import Any, Literal
from uuid import UUID, uuid4

from app.domain.model import (
    Claimed,
    Decided,
    DraftFollowUp,
    DraftMessage,
    HoldPlan,
    Parked,
    Sealed,
    Signalled,
)
from app.domain.notice import NoticeRoute
from app.domain.seal import spell
from tests.engine.held_stories import PLAN, decide, deciding, expire, holding
from tests.engine.stories import CRM, QUEUE, Sink, draft, only
from tests.engine.waiting_stories import parking, telling
from tests.history.log import Promise, Told, encode, now
from tests.plants.notes import Failed, message_id, turn_id
from tests.plants.people import People

DESK = "desk"
ROUTES = {QUEUE: NoticeRoute(escalate_to=DESK)}


class Waiting(People):
    """Each writes down what he asks, and what he is told."""

    async def seal_held(
        self,
        held: Claimed,
        *messages: str | DraftMessage,
        follow_ups: Sequence[DraftFollowUp] = (),
        plan: HoldPlan | None = PLAN,
        sink: Sink | None = None,
    ) -> str:
        """Seal so that the set waits; returns what it has to be approved by, nothing if it was not granted."""
        drafts = [
            draft(one, held.conversation) if isinstance(one, str) else one for one in messages
        ]
        bodies = tuple(encode(one.body) for one in drafts)
        call = self.ask(
            "agent",
            "seal",
            held,
            request=str(bodies),
            bodies_base64=bodies,
            follow_ups=len(follow_ups),
        )
        request = holding(held, *drafts, follow_ups=follow_ups, plan=plan)
        outcome = only(await (sink or self.sink).seal(request))
        if not isinstance(outcome, Sealed):
            self.note(Told(call, now(), 409), sink)
            return ""
        told = Told(
            call,
            now(),
            200,
            outcome.state,
            payload_hash=outcome.payload_hash,
            messages=tuple(Promise(message_id(m.id), m.key, m.state) for m in outcome.messages),
            follow_ups=tuple(turn_id(one.turn) for one in outcome.follow_ups),
        )
        self.note(told, sink)
        return outcome.payload_hash

    async def drafted(self, key: str, *messages: str, **options: Any) -> tuple[Claimed, str]:
        """A turn from its accept to its hold, without a conversation: the lease, and the hash of its set."""
        held = await self.hold(key)
        return held, await self.seal_held(held, *messages, **options)

    async def decide(
        self,
        turn: UUID,
        shown: str,
        decision: Literal["approve", "reject", "revise"] = "approve",
        *,
        by: str = "ada",
        edited: Sequence[DraftMessage] | None = None,
        sink: Sink | None = None,
    ) -> bool:
        """Decide about a set that was seen under this hash; whether it was granted."""
        call = self.ask(by, "decide", turn=turn_id(turn), decision=decision, payload_hash=shown)
        wanted = deciding(turn, shown, decision, by=by, edited=edited)
        outcome = only(await decide(sink or self.sink, wanted))
        if not isinstance(outcome, Decided):
            self.note(Told(call, now(), 409), sink)
            return False
        made = outcome.hold
        told = Told(call, now(), 200, outcome.state, decision=made.decision, by=made.decided_by)
        self.note(told, sink)
        return True

    async def park(self, held: Claimed, name: str = "payment", **options: Any) -> None:
        call = self.ask("agent", "park", held, name=name)
        outcome = only(await self.sink.park(parking(held, name, **options)))
        is_parked = isinstance(outcome, Parked)
        self.note(Told(call, now(), 200 if is_parked else 409))

    async def signal(self, turn: UUID, said: str, name: str = "payment", **options: Any) -> None:
        one = telling(turn, name, said, **options)
        body = (encode(said.encode()),)
        call = self.ask(
            "bank", "signal", turn=turn_id(turn), name=name, request=said, bodies_base64=body
        )
        try:
            outcome = only(await self.sink.signal(one))
        except Failed:
            self.note(Told(call, now(), 503))
            return
        self.note(Told(call, now(), 200 if isinstance(outcome, Signalled) else 409))

    async def deadlines(self) -> None:
        """One pass over what waits until a time, and over whom to tell."""
        await expire(self.sink)
        await self.sink.wake_parked()
        await self.sink.escalate(routes=ROUTES)

    async def forge(self, body: bytes, another: bytes) -> None:
        """Somebody changes a message in the database, and its hash with it."""
        row = await self.admin.fetchrow(
            "select o.*, p.* from sink.outbox as o inner join sink.outbox_payload as p on p.message = o.id"
            " where p.body = $1",
            body,
        )
        assert row is not None
        digest = draft(another.decode(), row["conversation"], destination=CRM).hash
        await self.admin.execute(
            "update sink.outbox_payload set body = $2, hash = $3 where message = $1",
            row["message"],
            another,
            digest,
        )

    async def shown(self, turn: UUID) -> str:
        """What a turn shows now."""
        view = await self.sink.look(turn)
        return spell(view.payload_hash) if view.payload_hash else str(uuid4())
