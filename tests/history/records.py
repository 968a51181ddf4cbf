"""The records of a run: what each side of it wrote down. See `log.py` for how, and for the clock of all times."""

from dataclasses import dataclass

# The provider's side.


@dataclass(frozen=True, slots=True)
class Posted:
    """A provider is about to send an inbound. `post` names this one request; a retry is another one.

    `scope` is what the key is unique in, as the service stores it: `queue/<queue>` for the plain API.
    """

    post: str
    at: float
    replica: str
    scope: str
    key: str
    body_base64: str
    content_type: str = "application/json"
    conversation: str | None = None


@dataclass(frozen=True, slots=True)
class PostAnswered:
    """What the provider saw: `status` None when there was no answer, or half of one. Ids as the API spells them."""

    post: str
    at: float
    status: int | None
    inbound: str | None = None
    turn: str | None = None
    state: str | None = None
    duplicate: bool | None = None
    code: str | None = None


# The agent's and the operator's side.


@dataclass(frozen=True, slots=True)
class Asked:
    """An agent or an operator is about to call. `call` names this one request; a repeat is another one.

    `verb`: `claim`, `renew`, `release`, `fail` (a release that counts), `park`, `seal`, `cancel`, `redrive`, `resolve`,
    or `cancel_message`, `redrive_message`; `pause`, `resume`, whose `request` names what: `queue/<name>`,
    `destination/<name>` or `all/`; `signal`, `decide`. Else `request` says which request it is, so that the same one
    again can be told from another: for a seal anything that is equal if and only if the message sets are equal, such as
    a hash. A park and a signal have a `name`, a decision what was decided about which `payload_hash`; the bodies of a
    signal and of what an edit wants to be sent stand in `bodies_base64`.
    """

    call: str
    at: float
    agent: str
    verb: str
    replica: str = ""
    turn: str | None = None
    token: str | None = None
    message: str | None = None
    request: str | None = None
    bodies_base64: tuple[str, ...] | None = None
    name: str | None = None
    decision: str | None = None
    payload_hash: str | None = None
    follow_ups: int = 0


@dataclass(frozen=True, slots=True)
class Input:
    """One inbound that a claim gave; the body is None when the answer left it out."""

    id: str
    body_base64: str | None


@dataclass(frozen=True, slots=True)
class Heard:
    """What a claim's history says of a park: how it ended, and what its signal said."""

    attempt: int
    name: str
    body_base64: str | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """One turn that a claim gave. `heard` None: nobody has looked at its history."""

    turn: str
    token: str
    attempt: int
    inbound: tuple[Input, ...]
    lease_seconds: float
    conversation: str | None = None
    heard: tuple[Heard, ...] | None = None


@dataclass(frozen=True, slots=True)
class Promise:
    """One message that a seal's answer names."""

    id: str
    key: str
    state: str


@dataclass(frozen=True, slots=True)
class Told:
    """The answer to an `Asked`: `status` None when there was none. `turns` for a claim, `messages` for a seal.

    `follow_ups` are the turns that a seal promised; `decision` and `by` what stands of a decision.
    """

    call: str
    at: float
    status: int | None
    state: str | None = None
    code: str | None = None
    reason: str | None = None
    payload_hash: str | None = None
    turns: tuple[Given, ...] = ()
    messages: tuple[Promise, ...] = ()
    newer_inbound: int | None = None
    follow_ups: tuple[str, ...] = ()
    decision: str | None = None
    by: str | None = None


# The receiver's side.


@dataclass(frozen=True, slots=True)
class Received:
    """A request arrived at a destination. `complete` says whether its whole body did."""

    request: str
    at: float
    destination: str
    key: str
    body_base64: str
    complete: bool = True
    webhook_id: str | None = None
    content_type: str | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """The receiver is about to answer a request with this header block; None: it cut the connection before that."""

    request: str
    at: float
    status: int | None


# The database's clock, and the state of the replicas.


@dataclass(frozen=True, slots=True)
class Moment:
    """At `at` the database's clock said `database_at` (seconds since 1970). Taken again after each move of it."""

    at: float
    database_at: float


@dataclass(frozen=True, slots=True)
class Vital:
    """How a replica was: whether it is ready, and how many pooled connections are in use (None: not known)."""

    at: float
    replica: str
    ready: bool
    pool_in_use: int | None = None


@dataclass(frozen=True, slots=True)
class Healed:
    """From here on there are no faults: these replicas serve, and everything must come to its end.

    `api_replicas` must accept, after this, a new inbound each.
    """

    at: float
    replicas: tuple[str, ...] = ()
    api_replicas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Terms:
    """What was configured, for those rules that depend on it. None: the rule is not checked.

    `wire_is_whole`: no delivery worker was killed or frozen, and no answer of a receiver was cut or late, so that
    nothing that was confirmed has a reason to be sent again. `destinations` are those whose receivers wrote logs; None:
    all. `holding` are those where what is unknown waits for a person. `message_age_seconds_max` is when a message is
    given up although it has attempts left. `held_queues` hold every set, `sent_queues` send one at its deadline, and
    `told_queues` have somebody who is told of holds.
    `slack_seconds` is how long something due may stay undone after the last fault: poll, sweep and one try.
    """

    turn_attempts_max: int | None = None
    releases_max: int | None = None
    message_attempts_max: int | None = None
    message_age_seconds_max: float | None = None
    wire_is_whole: bool = False
    destinations: tuple[str, ...] | None = None
    holding: tuple[str, ...] = ()
    held_queues: tuple[str, ...] = ()
    sent_queues: tuple[str, ...] = ()
    told_queues: tuple[str, ...] = ()
    slack_seconds: float = 5.0


Record = (
    Posted | PostAnswered | Asked | Told | Received | Answered | Moment | Vital | Healed | Terms
)
