"""The provider, the agents and the operator: each writes down what he asks, and what he is told."""

import uuid
from typing import Any, Literal
from uuid import UUID

from app.domain.ids import INBOUND_PREFIX, format_id
from app.domain.model import (
    Accepted,
    Changed,
    Claimed,
    DraftMessage,
    HandedBack,
    Joining,
    Renewed,
    Sealed,
    Woken,
)
from app.engine import cancel, redrive
from app.engine.pause import EVERYTHING, Kind
from tests.engine.stories import Sink, arrival, draft, returning, sealing, wish
from tests.history.log import (
    Given,
    Heard,
    Input,
    PostAnswered,
    Posted,
    Promise,
    Told,
    encode,
    now,
)
from tests.plants.notes import Failed, Notes, message_id, turn_id

JOINING = Joining(quiet_seconds=2.0, seconds_max=10.0, inbound_max=10, bytes_max=1 << 20)


class People(Notes):
    """Those who call the service. A call may go to another replica's `sink`."""

    # The provider.

    async def post(
        self, key: str, conversation: str | None = None, *, sink: Sink | None = None, **more: Any
    ) -> Accepted | None:
        one = arrival(key, conversation, **more)
        post = uuid.uuid4().hex
        body = encode(one.body)
        self.note(Posted(post, now(), "api", one.scope, key, body, one.content_type, conversation))
        try:
            (accepted,) = await (sink or self.sink).accept(one)
        except Failed:
            self.note(PostAnswered(post, now(), 503))
            return None
        status = 202 if not accepted.duplicate else 200 if accepted.same_body else 422
        answer = PostAnswered(
            post,
            now(),
            status,
            inbound=format_id(INBOUND_PREFIX, accepted.inbound),
            turn=turn_id(accepted.turn),
            state=accepted.state,
            duplicate=accepted.duplicate,
        )
        self.note(answer, sink)
        return accepted

    async def post_joining(
        self, key: str, conversation: str, *, sink: Sink | None = None
    ) -> Accepted | None:
        return await self.post(key, conversation, sink=sink, joining=JOINING)

    # The agents.

    async def claim(
        self, agent: str = "agent-1", *, sink: Sink | None = None, **more: Any
    ) -> list[Claimed]:
        call = self.ask(agent, "claim")
        (claimed,) = await (sink or self.sink).claim_for(wish(**more, agent=agent))
        self.note(Told(call, now(), 200, turns=tuple(map(_given, claimed))), sink)
        return list(claimed)

    async def claim_one(self, agent: str = "agent-1", **more: Any) -> Claimed:
        (claimed,) = await self.claim(agent, **more)
        return claimed

    async def hold(self, key: str, lane: str | None = None) -> Claimed:
        """Accept a turn and claim it."""
        accepted = await self.post(key, lane)
        assert accepted is not None, "the accept was answered 503"
        return await self.claim_one()

    async def renew(self, held: Claimed, *, sink: Sink | None = None) -> None:
        call = self.ask("agent", "renew", held)
        (outcome,) = await (sink or self.sink).renew(held)
        status = 200 if isinstance(outcome, Renewed) else 409
        self.note(Told(call, now(), status), sink)

    async def hand_back(self, held: Claimed, **more: Any) -> None:
        call = self.ask("agent", "fail" if more else "release", held)
        (outcome,) = await self.sink.release(returning(held, **more))
        self.note(Told(call, now(), 200 if isinstance(outcome, HandedBack) else 409))

    async def seal(
        self,
        held: Claimed,
        *messages: str | DraftMessage,
        order: Literal["strict"] | None = None,
        sink: Sink | None = None,
    ) -> list[UUID]:
        """Seal with these messages; returns their ids, none if it was not granted."""
        drafts = [
            draft(one, held.conversation) if isinstance(one, str) else one for one in messages
        ]
        bodies = tuple(encode(one.body) for one in drafts)
        call = self.ask("agent", "seal", held, request=str(bodies), bodies_base64=bodies)
        try:
            (outcome,) = await (sink or self.sink).seal(sealing(held, *drafts, order=order))
        except Failed:
            self.note(Told(call, now(), None))
            return []
        if not isinstance(outcome, Sealed):
            self.note(Told(call, now(), 409), sink)
            return []
        told = tuple(Promise(message_id(m.id), m.key, m.state) for m in outcome.messages)
        digest = outcome.payload_hash
        self.note(Told(call, now(), 200, outcome.state, payload_hash=digest, messages=told), sink)
        return [message.id for message in outcome.messages]

    async def answer(
        self,
        key: str,
        *messages: str | DraftMessage,
        lane: str | None,
        order: Literal["strict"] | None = None,
    ) -> list[UUID]:
        """A turn from its accept to its seal."""
        return await self.seal(await self.hold(key, lane), *messages, order=order)

    # The operator.

    async def cancel(self, turn: UUID) -> None:
        call = self.ask("operator", "cancel", turn=turn_id(turn))
        (done,) = await cancel.cancel_turns(self.sink.pool, [turn], by="operator")
        self._done(call, done)

    async def cancel_message(self, message: UUID) -> None:
        call = self.ask("operator", "cancel_message", message=message_id(message))
        (done,) = await cancel.cancel_messages(self.sink.pool, [message], by="operator")
        self._done(call, done)

    async def redrive_message(self, message: UUID) -> None:
        call = self.ask("operator", "redrive_message", message=message_id(message))
        (done,) = await redrive.redrive_messages(self.sink.pool, [message], by="operator")
        self._done(call, done)

    async def resend(self, message: UUID) -> None:
        call = self.ask("operator", "resend", message=message_id(message))
        (done,) = await self.sink.ask_resend(message)
        self._done(call, done)

    async def pause(self, kind: Kind, name: str = EVERYTHING) -> None:
        call = self.ask("operator", "pause", request=f"{kind}/{name}")
        await self.sink.pause(kind, name)
        self.note(Told(call, now(), 200))

    async def resume(self, kind: Kind, name: str = EVERYTHING) -> None:
        call = self.ask("operator", "resume", request=f"{kind}/{name}")
        await self.sink.resume(kind, name)
        self.note(Told(call, now(), 200))

    def _done(self, call: str, done: Changed | None) -> None:
        self.note(Told(call, now(), 200 if done else 404, done.state if done else None))


def _given(claimed: Claimed) -> Given:
    inbound = tuple(
        Input(format_id(INBOUND_PREFIX, one.id), None if one.body is None else encode(one.body))
        for one in claimed.inbound
    )
    return Given(
        turn_id(claimed.turn),
        str(claimed.token),
        claimed.attempt,
        inbound,
        claimed.lease_expires_in_seconds,
        claimed.conversation,
        tuple(
            Heard(
                one.attempt, one.said.name, None if one.said.body is None else encode(one.said.body)
            )
            for one in claimed.history
            if isinstance(one.said, Woken)
        ),
    )
