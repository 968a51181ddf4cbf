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
    Claimed,
    ClaimRequest,
    DeliveryPolicy,
    DraftMessage,
    HandBack,
    HandedBack,
    Joining,
    Renewal,
    Renewed,
    Sealed,
    SealRequest,
    TurnPolicy,
    Verdict,
)
from app.domain.notice import NoticeRoute
from app.domain.outcome import Answer
from app.domain.seal import message_hash
from app.engine import accept as accepting
from app.engine import claim as claiming
from app.engine import release, renew, seal
from app.engine.marks import Marks
from tests.engine.delivering_stories import Deliveries
from tests.engine.intervening_stories import Interventions
from tests.engine.looking_stories import Looks
from tests.engine.sweeping_stories import Sweeps
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


def only(outcomes: Sequence[Any]) -> Any:
    """The one outcome of a single call."""
    (outcome,) = outcomes
    return outcome


@dataclass(slots=True)
class Sink(Deliveries, Interventions, Looks, Sweeps, Waits):
    """Every verb of the engine, over one pool."""

    pool: "Pool"
    ids: IdFactory
    jitter: random.Random
    turn_policies: Mapping[str, TurnPolicy] = field(default_factory=lambda: {QUEUE: TURN_POLICY})
    delivery_policies: Mapping[str, DeliveryPolicy] = field(
        default_factory=lambda: {CRM: DELIVERY_POLICY}
    )
    marks: Marks | None = None
    destination: str = CRM
    notice_routes: Mapping[str, NoticeRoute] = field(default_factory=lambda: NOTICE_ROUTES)

    async def accept(self, *arrivals: Arrival, lock_wait_ms: int | None = None) -> list[Accepted]:
        return await accepting.accept(
            self.pool, arrivals, ids=self.ids, key_seconds=KEY_SECONDS, lock_wait_ms=lock_wait_ms
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
