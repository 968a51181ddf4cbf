"""The engine's verbs with what a test does not care about filled in, so that a test tells its story."""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from app.domain.breaker import Sign
from app.domain.ids import IdFactory
from app.domain.model import (
    Accepted,
    Arrival,
    Changed,
    Claimed,
    ClaimRequest,
    DeliveryPolicy,
    DraftMessage,
    Fact,
    HandBack,
    HandedBack,
    Joining,
    Renewal,
    Renewed,
    Sealed,
    SealRequest,
    Settlement,
    Slots,
    Taken,
    TurnPolicy,
    Verdict,
)
from app.domain.notice import NoticeRoute
from app.domain.outcome import Answer
from app.domain.seal import message_hash
from app.engine import accept as accepting
from app.engine import (
    cancel,
    escalate,
    fact,
    inspect,
    operation,
    redrive,
    release,
    renew,
    resend,
    resolve,
    seal,
    settle,
    standing,
    sweep,
    take,
)
from app.engine import claim as claiming
from app.engine import due as due_verb
from app.engine import pause as pausing
from app.engine.marks import Marks
from app.engine.matching import Filter
from tests.engine.waiting_stories import Waits

if TYPE_CHECKING:
    from app.engine.database import Pool

QUEUE = "default"
CRM = "crm"
CONVERSATION = "c"
KEY_SECONDS = 2_592_000.0
ANSWER_BYTES_MAX = 8 << 20

DELIVERED = Verdict("delivered", receipt="r-1", answer=Answer(200, "ok"), sign=Sign.WORKS)
DEAD = Verdict("dead", reason="rejected")
UNKNOWN = Verdict("unknown", reason="timeout", may_have_arrived=True)
LATER = Verdict("pending", reason="busy", delay_seconds=5.0)
GIVEN_BACK = Verdict("pending", reason="drain", counted=False)

TURN_POLICY = TurnPolicy(
    attempts_max=5, releases_max=20, backoff_seconds=1.0, backoff_seconds_max=60.0
)
DELIVERY_POLICY = DeliveryPolicy(
    attempts_max=5, age_seconds_max=86_400.0, backoff_seconds=1.0, backoff_seconds_max=3_600.0
)

ONCALL = "oncall"
NOTICE_ROUTES = {QUEUE: NoticeRoute(escalate_to=ONCALL)}
TELLING = escalate.Telling(public_url="https://sink.example")

# Two seconds of quiet, ten at the longest.
JOINING = Joining(quiet_seconds=2.0, seconds_max=10.0, inbound_max=100, bytes_max=1 << 20)


def arrival(key: str, conversation: str | None = None, **changes: Any) -> Arrival:
    """One inbound of the queue `default`, whose body is its key unless told otherwise."""
    queue = changes.setdefault("queue", QUEUE)
    body = changes.setdefault("body", b'"%s"' % key.encode())
    return Arrival(
        key=key,
        conversation=conversation,
        **{
            "scope": f"queue/{queue}",
            "body_hash": hashlib.sha256(body).digest(),
            "source": "api",
            "content_type": "application/json",
            "strict_json": True,
            **changes,
        },
    )


def short(key: str, conversation: str | None = CONVERSATION, **changes: Any) -> Arrival:
    """One of several short messages, which may join those before it."""
    return arrival(key, conversation, **{"joining": JOINING, **changes})


def draft(text: str = "hello", conversation: str | None = None, **changes: Any) -> DraftMessage:
    """One message to the destination `crm`, with the hash it should have."""
    fields: dict[str, Any] = {
        "destination": CRM,
        "recipient": None,
        "conversation": conversation,
        "headers": {},
        "content_type": "text/plain",
        "body": text.encode(),
        "delay_seconds": 0.0,
        **changes,
    }
    return DraftMessage(**fields, hash=message_hash(**fields))


def request_hash(drafts: Sequence[DraftMessage], *, order: str | None = None) -> bytes:
    """What tells one set from another."""
    return hashlib.sha256((order or "").encode() + b"".join(one.hash for one in drafts)).digest()


def sealing(
    held: Claimed, *drafts: DraftMessage, order: Literal["strict"] | None = None
) -> SealRequest:
    """The seal of a held turn with these messages."""
    return SealRequest(held.turn, held.token, request_hash(drafts, order=order), drafts, order)


def returning(held: Claimed, **changes: Any) -> HandBack:
    """A held turn handed back."""
    return HandBack(**{"turn": held.turn, "token": held.token, "reason": "busy", **changes})


def raise_first(failed: Sequence[Exception]) -> None:
    """Nothing may have failed."""
    for error in failed:
        raise error


def only(outcomes: Sequence[Any]) -> Any:
    """The one outcome of a single call."""
    (outcome,) = outcomes
    return outcome


@dataclass(slots=True)
class Sink(Waits):
    """Every verb of the engine, over one pool."""

    pool: "Pool"
    ids: IdFactory
    jitter: random.Random
    turn_policies: Mapping[str, TurnPolicy] = field(default_factory=lambda: {QUEUE: TURN_POLICY})
    delivery_policies: Mapping[str, DeliveryPolicy] = field(
        default_factory=lambda: {CRM: DELIVERY_POLICY}
    )
    marks: Marks | None = None

    async def accept(self, *arrivals: Arrival, lock_wait_ms: int | None = None) -> list[Accepted]:
        return await accepting.accept(
            self.pool,
            arrivals,
            ids=self.ids,
            key_seconds=KEY_SECONDS,
            lock_wait_ms=lock_wait_ms,
        )

    async def accept_one(
        self, key: str, conversation: str | None = None, **changes: Any
    ) -> Accepted:
        (accepted,) = await self.accept(arrival(key, conversation, **changes))
        return accepted

    async def claim_for(
        self,
        *requests: ClaimRequest,
        still_wanted: Callable[[int], bool] = lambda _position: True,
    ) -> list[list[Claimed]]:
        answers = await claiming.claim(
            self.pool, requests, still_wanted=still_wanted, marks=self.marks
        )
        return [answer or [] for answer in answers]

    async def claim(self, turns_max: int = 1, **changes: Any) -> list[Claimed]:
        (claimed,) = await self.claim_for(wish(turns_max, **changes))
        return claimed

    async def claim_one(self, **changes: Any) -> Claimed:
        (claimed,) = await self.claim(1, **changes)
        return claimed

    async def hold(self, key: str, conversation: str | None = None, **changes: Any) -> Claimed:
        """Accept a turn and claim it, over any others."""
        accepted = await self.accept_one(key, conversation, priority=100)
        held = await self.claim_one(**changes)
        assert held.turn == accepted.turn
        return held

    async def renew(self, *held: Claimed) -> list[renew.Outcome]:
        return await renew.renew(self.pool, [Renewal(one.turn, one.token) for one in held])

    async def release(self, *returned: HandBack) -> list[release.Outcome]:
        return await release.release(
            self.pool, returned, policies=self.turn_policies, jitter=self.jitter
        )

    async def hand_back(self, held: Claimed, **changes: Any) -> str:
        """Hand one turn back that is held for sure; returns its state."""
        outcome = only(await self.release(returning(held, **changes)))
        assert isinstance(outcome, HandedBack)
        return outcome.state

    async def parked(
        self, key: str, conversation: str | None = None, name: str = "answer", **changes: Any
    ) -> Claimed:
        """A turn from accept to park: the lease that it had."""
        held = await self.hold(key, conversation)
        assert await self.park_one(held, name, **changes) == "parked"
        return held

    async def seal(
        self, *requests: SealRequest, lock_wait_ms: int | None = None
    ) -> list[seal.Outcome]:
        return await seal.seal(self.pool, requests, ids=self.ids, lock_wait_ms=lock_wait_ms)

    async def seal_one(
        self, held: Claimed, *drafts: DraftMessage, order: Literal["strict"] | None = None
    ) -> Sealed:
        """Seal a turn that is held for sure."""
        outcome = only(await self.seal(sealing(held, *drafts, order=order)))
        assert isinstance(outcome, Sealed)
        return outcome

    async def sealed(
        self,
        key: str,
        *drafts: DraftMessage,
        conversation: str | None = None,
        order: Literal["strict"] | None = None,
    ) -> tuple[UUID, list[UUID]]:
        """A turn from accept to seal: its id, and those of its messages."""
        held = await self.hold(key, conversation)
        outcome = await self.seal_one(held, *drafts, order=order)
        return held.turn, [message.id for message in outcome.messages]

    async def take(
        self, count: int = 100, *, destination: str = CRM, hold_unknown: bool = False
    ) -> list[Taken]:
        slots = [Slots(destination, count, 30.0, hold_unknown=hold_unknown)]
        takes = await take.take(self.pool, slots)
        return list(takes.messages)

    async def take_one(self) -> Taken:
        (taken,) = await self.take(1)
        return taken

    async def settle(self, *pairs: tuple[Taken, Verdict]) -> list[bool]:
        """Settle each; tells of each whether its lease still held."""
        settlements = [Settlement(one.message, one.attempt_id, verdict) for one, verdict in pairs]
        settled = await settle.settle(self.pool, settlements, policies=self.delivery_policies)
        return [done.held for done in settled]

    async def settle_next(self, verdict: Verdict) -> UUID:
        """Take the next due message and settle it."""
        taken = await self.take_one()
        assert await self.settle((taken, verdict)) == [True]
        return taken.message

    async def tell(self, *taken: Taken) -> set[UUID]:
        """Late facts: these attempts were delivered."""
        facts = [Fact(one.message, one.attempt_id, "r-late", 200) for one in taken]
        return await fact.record_facts(self.pool, facts)

    async def sweep_turns(self, turns_max: int = 100) -> dict[str, int]:
        swept = await sweep.sweep_turns(
            self.pool, policies=self.turn_policies, turns_max=turns_max, jitter=self.jitter
        )
        raise_first(swept.failed)
        return dict(swept.states)

    async def sweep_messages(self, messages_max: int = 100) -> int:
        swept = await sweep.sweep_messages(
            self.pool,
            policies=self.delivery_policies,
            messages_max=messages_max,
            jitter=self.jitter,
        )
        raise_first(swept.failed)
        return sum(swept.states.values())

    async def escalate(
        self,
        notices_max: int = 100,
        *,
        routes: Mapping[str, NoticeRoute] | None = None,
        telling: escalate.Telling = TELLING,
    ) -> dict[tuple[str, str, str], int]:
        """Tell whoever is to be told; returns what became of the notices, by queue, kind and result."""
        done = await escalate.escalate(
            self.pool,
            routes=NOTICE_ROUTES if routes is None else routes,
            notices_max=notices_max,
            ids=self.ids,
            telling=telling,
        )
        raise_first(done.failed)
        return dict(done.results)

    async def due(self, turns_max: int = 100) -> list[str]:
        queues, failed = await due_verb.due(self.pool, turns_max=turns_max)
        raise_first(failed)
        return queues

    async def due_after_pause(self, turns_max: int = 100) -> list[str]:
        queues, failed = await due_verb.due_after_pause(self.pool, turns_max=turns_max)
        raise_first(failed)
        return queues

    async def pause(self, kind: pausing.Kind, name: str = "") -> None:
        assert await pausing.pause(self.pool, kind, name, by="ada") is not None

    async def resume(self, kind: pausing.Kind, name: str = "") -> None:
        await pausing.resume(self.pool, kind, name)

    async def cancel(self, *turns: UUID) -> list[Changed | None]:
        return await cancel.cancel_turns(self.pool, turns, by="ada")

    async def cancel_messages(self, *messages: UUID) -> list[Changed | None]:
        return await cancel.cancel_messages(self.pool, messages, by="ada")

    async def redrive(self, *turns: UUID) -> list[Changed | None]:
        return await redrive.redrive_turns(self.pool, turns, by="ada")

    async def redrive_messages(self, *messages: UUID) -> list[Changed | None]:
        return await redrive.redrive_messages(self.pool, messages, by="ada")

    async def resolve(
        self, *messages: UUID, state: Literal["delivered", "cancelled"]
    ) -> list[Changed | None]:
        return await resolve.resolve_messages(self.pool, messages, state=state, by="ada")

    async def ask_resend(self, *messages: UUID) -> list[Changed | None]:
        return await resend.resend_messages(self.pool, messages, by="ada")

    async def take_resends(
        self, count: int = 100, *, destination: str = CRM, hold_unknown: bool = False
    ) -> list[resend.Resend]:
        slots = [Slots(destination, count, 30.0, hold_unknown=hold_unknown)]
        return await resend.take_resends(self.pool, slots)

    async def settle_resends(self, *pairs: tuple[resend.Resend, Verdict]) -> list[bool]:
        settlements = [
            resend.ResendSettlement(one.id, one.taken.attempt_id, verdict) for one, verdict in pairs
        ]
        return await resend.settle_resends(self.pool, settlements)

    async def sweep_resends(self, rows_max: int = 100) -> int:
        return await resend.sweep_resends(
            self.pool, policies=self.delivery_policies, rows_max=rows_max, jitter=self.jitter
        )

    async def begin(self, kind: Any, verb: Any, outcome: Any = None, **wanted: Any) -> UUID:
        """Begin a verb over everything that matches."""
        chosen = Filter(**{"states": operation.STATES[kind, verb], **wanted})
        order = operation.Order(
            kind=kind, verb=verb, wanted=chosen, asked={"all": True}, outcome=outcome
        )
        begun = await operation.begin_operation(self.pool, order, ids=self.ids, by="ada")
        return begun.id

    async def look(self, turn: UUID) -> standing.TurnView:
        """A turn that is there for sure, as it is."""
        view = await standing.find_turn(self.pool, turn)
        assert view is not None
        return view

    async def state(self, turn: UUID) -> str:
        return (await self.look(turn)).state

    async def states(self, turn: UUID) -> list[str]:
        """The states of a turn's messages, in their order."""
        return [message.state for message in (await self.look(turn)).messages]

    async def story(self, turn: UUID) -> list[tuple[str, str | None, str]]:
        """The moves of a turn itself, in order."""
        events = await inspect.find_events(self.pool, turn, after=0, events_max=1000)
        return [(e.verb, e.from_state, e.to_state) for e in events if e.message is None]


def wish(turns_max: int = 1, **changes: Any) -> ClaimRequest:
    """A claim of the queue `default`."""
    return ClaimRequest(
        **{
            "queue": QUEUE,
            "agent": "agent-1",
            "turns_max": turns_max,
            "lease_seconds": 60,
            "answer_bytes_max": ANSWER_BYTES_MAX,
            **changes,
        }
    )


def still_holds(outcome: object) -> bool:
    """Whether a renewal was granted."""
    return isinstance(outcome, Renewed)
