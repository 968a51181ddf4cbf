"""A provider's request as values: what comes, what is read from it, and how it is answered.

None of them shows what is secret when it is printed.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from app.domain.errors import SinksweepError

TEXT_PLAIN: Final = "text/plain; charset=utf-8"


class Result(StrEnum):
    """What a request came to. The comment says what is told with it."""

    ACCEPTED = "accepted"  # what was in it is committed
    DUPLICATE = "duplicate"  # all of it was committed before, whatever its bytes are now
    IGNORED = "ignored"  # verified, and there was nothing in it to keep
    BAD_SIGNATURE = "bad_signature"  # checked, and wrong, missing, or of another time
    TOO_OLD = "too_old"  # rightly signed, and from before its key could still be remembered
    MALFORMED = "malformed"  # rightly signed, and not what this provider sends
    TOO_LARGE = "too_large"
    WRONG_METHOD = "wrong_method"
    NOT_READY = "not_ready"  # nothing was decided: it is to come again
    UNKNOWN_SOURCE = "unknown_source"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a provider is told. Without a body an error is told as a problem document."""

    status: int = 200
    body: bytes = b""
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


# What most providers take for success, for failure and for later. One that takes something else says so.
REPLIES: Final[Mapping[Result, Reply]] = MappingProxyType(
    {
        Result.ACCEPTED: Reply(200),
        Result.DUPLICATE: Reply(200),
        Result.IGNORED: Reply(200),
        Result.BAD_SIGNATURE: Reply(401),
        Result.TOO_OLD: Reply(400),
        Result.MALFORMED: Reply(400),
        Result.TOO_LARGE: Reply(413),
        Result.WRONG_METHOD: Reply(405),
        Result.NOT_READY: Reply(503, headers={"Retry-After": "5"}),
        Result.UNKNOWN_SOURCE: Reply(404),
    }
)


# The reason of who met a public key that is not known: they are fetched anew.
KEY_UNKNOWN: Final = "key_unknown"


class Refused(SinksweepError):
    """A request that is not taken. `reason` is a stable word or two and never quotes what came."""

    def __init__(self, result: Result, reason: str) -> None:
        super().__init__(f"{result}: {reason}")
        self.result = result
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it came.

    `public_url` is the source's own URL, from the configuration and never from a header, with the query as it was sent.
    `headers` have names in lower case; one that came twice is left out, since nobody can say which of them counts.
    """

    method: str
    public_url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    def header(self, name: str) -> str:
        """A header by its name in lower case; "" where there is none."""
        return self.headers.get(name, "")

    @property
    def query(self) -> bytes:
        """The query as it was sent, without its question mark."""
        return self.public_url.partition("?")[2].encode("latin-1", "replace")

    @property
    def content_type(self) -> str:
        """The media type alone, in lower case; "" where none is said."""
        return self.header("content-type").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Secrets:
    """What the pointers of a source hold at this moment; what holds nothing is left out.

    `active` are those that a signature may be made with: several while one is rotated. `named` are those that a kind
    has beside them, by the name of the field of its `Config` that points at them.
    """

    active: tuple[bytes, ...] = field(default=(), repr=False)
    named: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Keys:
    """Public keys that were fetched, by their id, each as the provider's `receive` wants it."""

    by_id: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Attachment:
    """Something that came along: a reference, never its bytes. `name`, `url` or `id`, whichever there is."""

    kind: str
    id: str = ""
    url: str = ""
    name: str = ""
    content_type: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """The same few things of every message, for agents that need no more than that."""

    text: str = ""
    sender: str = ""
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """Leave to answer once or for a while: what the channel that answers needs, by name.

    `secrets` are blotted out of the body that is kept; `facts` are not secret, and go along.
    """

    secrets: Mapping[str, str] = field(repr=False)
    facts: Mapping[str, str] = field(default_factory=dict)
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One inbound of a request.

    `keys` are what it is known by, within its source: a hit on any is a duplicate. The first is the provider's own id,
    and under it alone a differing body is counted. `body` is its raw slice of the request, which two deliveries are
    compared by, unless `compared` says what else. `event` is the provider's name for what happened, for filters.
    `conversation` are the parts that name it, the most general first and empty ones at the end left out: a channel
    finds its way back by them. `dated` is when it happened, where the provider says so. `is_echo` tells that it is a
    message of our own.
    """

    keys: tuple[str, ...]
    body: bytes = field(repr=False)
    content_type: str = "application/json"
    event: str = ""
    conversation: tuple[str, ...] = ()
    view: View = View()
    reply: Capability | None = None
    dated: datetime | None = None
    compared: bytes | None = field(default=None, repr=False)
    is_echo: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """What a verified request held: none, one or many, all accepted in one transaction.

    `reply` is the answer where it depends on what came; None is the kind's own. `facts` are kept with each item and
    decide nothing. `ignored` counts what was left out, by a word that says why.
    """

    items: tuple[Item, ...]
    reply: Reply | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    ignored: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trial:
    """A rightly signed request that holds nothing to keep: whether it is taken tells whether both have one secret."""

    headers: Mapping[str, str] = field(repr=False)
    body: bytes


def body_key(body: bytes) -> str:
    """The key that a body is by itself: the only one where there is no id, the second where an id is not signed."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"
