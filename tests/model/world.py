"""What a model of the engine knows: turns, lanes and messages as plain values, and the rules that lanes follow."""

from dataclasses import dataclass, field, replace
from uuid import UUID

OPEN_IN_LANE = ("pending", "sending")
CLOSED = ("delivered", "cancelled")
STUCK = ("dead", "unknown")


@dataclass(slots=True)
class Turn:
    """A turn. `ended` is how each of its attempts ended, by number; times are seconds of the stopped clock.

    `ages` is from when its input ages, if not from its creation; while its source holds it up, its own time.
    """

    id: UUID
    conversation: str | None
    state: str
    created: float
    due: float
    priority: int = 0
    seq: int | None = None
    inbound: int = 1
    attempt: int = 0
    used: int = 0
    releases: int = 0
    lease_until: float | None = None
    requests: dict[int, bytes] = field(default_factory=dict)
    held: bool = False
    ages: float | None = None
    ended: dict[int, str] = field(default_factory=dict)
    # What waits: until when, which set is the last one and whether it lives, what it follows.
    deadline: float | None = None
    seal: int = 0
    live: bool = False
    root: UUID | None = None
    depth: int = 0
    revisions: int = 0
    parks: int = 0
    seals: dict[int, int] = field(default_factory=dict)

    def copied(self) -> "Turn":
        """Another one, alike."""
        return replace(
            self,
            requests=dict(self.requests),
            ended=dict(self.ended),
            seals=dict(self.seals),
        )


@dataclass(slots=True)
class Message:
    """An outbox message. `by` is what it is blocked by, `holds` whether its last attempt is not repeated if unknown."""

    id: UUID
    turn: UUID
    position: int
    conversation: str | None
    destination: str
    place: int | None
    due: float
    delay: float
    strict: bool = False
    by: UUID | None = None
    state: str = "pending"
    left: bool = False
    attempts: int = 0
    used: int = 0
    may: bool = False
    holds: bool = False
    stop: bool = False
    lease_until: float | None = None
    seal: int = 1
    key: UUID | None = None
    hash: bytes = b""

    def stops(self, other: "Message") -> bool:
        """Whether it is before the other in the lane of one set, or anywhere before it in a strict one."""
        same_lane = (self.destination, self.conversation) == (other.destination, other.conversation)
        same_set = (self.turn, self.seal) == (other.turn, other.seal)
        before = same_set and self.position < other.position
        return before and (other.strict or same_lane)


@dataclass(slots=True)
class Lane:
    """A conversation's lane."""

    tail: int = 0
    holder: UUID | None = None


@dataclass(slots=True)
class Standing:
    """How a destination stands."""

    breaker: str = "closed"
    failures: int = 0
    openings: int = 0
    probe_at: float | None = None
    asked_until: float | None = None


@dataclass(slots=True)
class Hold:
    """A set that waits for a decision, or did."""

    seal: int
    attempt: int
    hash: str
    strict: bool
    on_deadline: str
    keeps_lane: bool
    reminders: int = 0
    decision: str | None = None
    request: bytes | None = None
    new_hash: str | None = None


@dataclass(slots=True)
class Wait:
    """A park, with what a person was asked about, if one was."""

    attempt: int
    name: str
    asks: str | None
    asked: float
    ended: str | None = None


@dataclass(slots=True)
class Told:
    """What a turn was told under a name."""

    name: str
    number: int
    request: bytes
    decides: bool
    about: str | None
    dropped: bool = False


@dataclass(slots=True)
class FollowUp:
    """What a seal asked for later."""

    seal: int
    position: int
    child: UUID
    conversation: str | None
    delay: float
    key: str | None
    hash: bytes
    state: str = "held"


@dataclass(slots=True)
class World:
    """Everything at one moment."""

    now: float = 0.0
    turns: dict[UUID, Turn] = field(default_factory=dict)
    messages: dict[UUID, Message] = field(default_factory=dict)
    lanes: dict[str, Lane] = field(default_factory=dict)
    places: dict[tuple[str, str], int] = field(default_factory=dict)
    keys: dict[str, UUID] = field(default_factory=dict)
    requests: dict[str, tuple[float, dict[UUID, int]]] = field(default_factory=dict)
    standing: dict[str, Standing] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    holds: dict[UUID, list[Hold]] = field(default_factory=dict)
    waits: dict[UUID, list[Wait]] = field(default_factory=dict)
    told: dict[UUID, list[Told]] = field(default_factory=dict)
    later: dict[UUID, list[FollowUp]] = field(default_factory=dict)
    follow_keys: dict[str, UUID] = field(default_factory=dict)

    def copied(self) -> "World":
        """Another one, alike, that can be moved by itself."""
        return World(
            self.now,
            {id_: turn.copied() for id_, turn in self.turns.items()},
            {id_: replace(message) for id_, message in self.messages.items()},
            {name: replace(lane) for name, lane in self.lanes.items()},
            dict(self.places),
            dict(self.keys),
            dict(self.requests),
            {name: replace(standing) for name, standing in self.standing.items()},
            set(self.paused),
            {id_: [replace(one) for one in holds] for id_, holds in self.holds.items()},
            {id_: [replace(one) for one in waits] for id_, waits in self.waits.items()},
            {id_: [replace(one) for one in told] for id_, told in self.told.items()},
            {id_: [replace(one) for one in later] for id_, later in self.later.items()},
            dict(self.follow_keys),
        )

    def enter_lane(self, turn: Turn) -> None:
        """At the end of its lane: its head where the lane is free."""
        if turn.conversation is None:
            turn.state = "queued"
            return
        lane = self.lanes.setdefault(turn.conversation, Lane())
        lane.tail += 1
        turn.seq = lane.tail
        self.line_up(turn)

    def line_up(self, turn: Turn) -> None:
        """Queued where nobody holds the lane, else waiting."""
        lane = self.lanes[turn.conversation] if turn.conversation is not None else Lane()
        turn.state = "queued" if lane.holder is None else "waiting"
        lane.holder = lane.holder or turn.id

    def leave_lane(self, turn: Turn) -> None:
        """Its lane goes to who waits longest."""
        lane = self.lanes.get(turn.conversation or "")
        if lane is None or lane.holder != turn.id:
            return
        waiting = [
            (other.seq or 0, other.id)
            for other in self.turns.values()
            if other.conversation == turn.conversation and other.state == "waiting"
        ]
        lane.holder = min(waiting)[1] if waiting else None
        if lane.holder is not None:
            self.turns[lane.holder].state = "queued"

    def set_of(self, turn: UUID, seal: int | None = None) -> list[Message]:
        """The messages of a turn's last set, or of another one, in order."""
        wanted = (turn, self.turns[turn].seal if seal is None else seal)
        mine = [one for one in self.messages.values() if (one.turn, one.seal) == wanted]
        return sorted(mine, key=lambda message: message.position)

    def blocker(self, message: Message) -> UUID | None:
        """The last open one before it: of its own set, or else of an earlier set in the same lane of deliveries."""
        own = [
            other
            for other in self.set_of(message.turn, message.seal)
            if other.stops(message) and other.state not in CLOSED
        ]
        if own:
            return own[-1].id
        if message.left or message.conversation is None:
            return None
        before = [
            (other.place or 0, other.id)
            for other in self.messages.values()
            if (other.conversation, other.destination)
            == (message.conversation, message.destination)
            and (other.place or 0) < (message.place or 0)
            and other.state in OPEN_IN_LANE
            and not other.left
        ]
        return max(before)[1] if before else None

    def moved(self, *messages: Message) -> None:
        """What follows when messages of a set have moved: who leaves the lane, who waits for whom, the turn."""
        gone = [message for message in messages if message.state in CLOSED]
        for stuck in [message for message in messages if message.state in STUCK]:
            for other in self.set_of(stuck.turn):
                if (other is stuck or stuck.stops(other)) and not other.left:
                    other.left = True
                    gone.append(other)
        ids = {message.id for message in gone}
        next_ = {m.id: self.blocker(m) for m in self.messages.values() if m.by in ids}
        for id_, by in next_.items():
            message = self.messages[id_]
            if message.state == "pending" and message.by != by:
                message.by = by
                if by is None:
                    message.due = self.now + message.delay
        for turn in {message.turn for message in messages}:
            self.settle_turn(self.turns[turn])

    def settle_turn(self, turn: Turn) -> None:
        """Replied when all is delivered, undelivered when nothing moves by itself, else sealed."""
        mine = self.set_of(turn.id)
        moves = any(
            m.state == "sending"
            or (m.state == "pending" and not any(p.stops(m) and p.state in STUCK for p in mine))
            for m in mine
        )
        if turn.state in ("sealed", "undelivered"):
            delivered = all(message.state == "delivered" for message in mine)
            turn.state = "replied" if delivered else "sealed" if moves else "undelivered"
