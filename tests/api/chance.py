"""Requests by chance: of what is there and of what should not be, mostly in the documented shape."""

import json
import types
import typing
from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from pydantic import BaseModel
from yarl import URL

from app.api.calls import Call
from app.domain.ids import OPERATION_PREFIX
from app.domain.lifecycle import MessageState, TurnState
from tests.api.conftest import Answer, Service

NOBODYS: Final = "0" * 26
SCOPES: Final = (
    *("admin",) * 5, *("tenant",) * 4, "support", "read", "agent", "accept", None, "nonsense"
)  # fmt: skip
TEXTS: Final = (
    "", " ", "\x00", "a\x00b", "\ud800", "\udfff\ud800", "x" * 10_000, "ü" * 128, "名前", "\u202egnp",
    "😀" * 60, "'; drop table sink.turn; --", "%00", "..", "null", "default", "support", "crm",
    "loopback", "api", "strict", "cancelled", "all",
)  # fmt: skip
VALUES: Final[tuple[object, ...]] = (
    None, True, 0, -1, 1.5, 10**299, 1e308, [], {}, [None], {"a": {"b": [1]}}, [[[]]] * 3,
    {"\ud800": "\x00"}, "2026-01-01T00:00:00", "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59.999999999-23:59",
)  # fmt: skip
BODIES: Final = (
    b"",
    b"null",
    b"[]",
    b'"',
    b"\xff\xfe{}",
    b"\xef\xbb\xbf{}",
    b'{"a":1,"a":2}',
    b"[" * 5000,
    b'{"items":' + b"[" * 400 + b"]" * 400 + b"}",
    b'{"items":[' + b",".join([b"{}"] * 101) + b"]}",
    b'{"items":[1,null,[],"",{}]}',
    b'{"payload":1e400}',
    b'{"payload":"' + b"x" * 70_000 + b'"}',
    b'{"state":NaN}',
)
QUERIES: Final = (
    "%00=%00",
    "limit=%F0%9F%98%80",
    "limit=" + "9" * 5000,
    "limit=1&limit=1",
    "cursor=",
    "cursor=" + "A" * 32,
    "cursor=%ff",
    "=&=&&",
    "state=queued,queued,,",
    "queue=%ED%A0%80",
    "wait=replied&timeout_seconds=0",
    "wait=nope&timeout_seconds=1e9",
    "&".join(f"a{n}=1" for n in range(150)),
)
# What is likely to mean something, by the names of fields and parameters.
LIKELY: Final[dict[str, tuple[object, ...]]] = {
    "queue": ("default", "support", "chatty", "open", "nowhere"),
    "destination": ("loopback", "crm", "nowhere"),
    "conversation": ("ann", "ben", "ü"),
    "content_type": ("text/plain", "application/json", "x", "a/b\r\nc: d"),
    "payload_base64": ("AAAA", "A", "*", ""),
    "idempotency_key": ("k1", "k2", "k3", "ü", "\ud800"),
    "key": ("k1", "k2", "ü"),
    "wait_seconds": (0,),
    "agent": ("an agent",),
    "reason": ("a reason",),
    "code_version": ("1",),
    "request_id": ("0123456789abcdef", "fedcba9876543210"),
    "to": ("ann@example.org", None),
    "headers": ({}, {"x-tag": "1"}, None),
    "created_after": ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00"),
    "created_before": ("2099-12-31T00:00:00+02:00",),
    "not_before": ("2026-01-01T00:00:00Z", "2099-12-31T00:00:00+02:00"),
    "limit": ("1", "2", "0", "201", "٣", "1.0"),
    "state": (*TurnState, *MessageState, "queued,failed", "pending,dead", "nonsense"),
    "wait": (*TurnState, "nonsense"),
    "timeout_seconds": ("0", "0.01", "-1", "99999999"),
}


@dataclass(slots=True)
class Chance:
    """Makes requests for one service; what is put into `ids` and `leases` is likely to be asked for."""

    service: Service
    random: Random
    # By the collection that they are found in.
    ids: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    leases: dict[str, str] = field(default_factory=dict)

    async def send(self, call: Call) -> tuple[str, str | None, Answer]:
        """Ask something of a call; returns what, as whom, and the answer."""
        scope = self.random.choice(SCOPES)
        path, lease = self._path(call)
        body = self._body(call, lease)
        url = self.service.url + path + self._query(call)
        headers = {} if body is None else {"Content-Type": self._content_type()}
        headers |= self.service.bearer(scope)
        if call.headers and not self._happens(0.1):
            headers["Idempotency-Key"] = self.random.choice(("k1", "k2", "k9", "x" * 255, "a b"))
        asked = f"{call.method} {url[:400]} {headers.get('Content-Type')} {(body or b'')[:600]!r}"
        async with self.service.http.request(
            call.method, URL(url, encoded=True), data=body, headers=headers
        ) as response:
            return asked, scope, Answer(response.status, response.headers, await response.read())

    def _happens(self, share: float) -> bool:
        return self.random.random() < share

    def _path(self, call: Call) -> tuple[str, str | None]:
        """A path of the call, and the lease of the turn in it."""
        id_ = self._id(call.path.split("/")[2])
        names = [quoted(text[:2000]) or "%20" for text in TEXTS]
        name = self.random.choice(names)
        return call.path.format(id=id_, name=name, source=name), self.leases.get(id_)

    def _id(self, collection: str) -> str:
        nobodys = [f"{prefix}{NOBODYS}" for prefix in ("turn_", "msg_", "in_", OPERATION_PREFIX)]
        known = self.ids[collection] or nobodys
        if not self._happens(0.15):
            return self.random.choice(known)
        strange = [quoted(text[:2000]) or "_" for text in TEXTS]
        return self.random.choice([*strange, *nobodys, f"{known[0]}%00", known[0].upper()])

    def _query(self, call: Call) -> str:
        if self._happens(0.4 if call.method == "GET" else 0.95):
            return ""
        if self._happens(0.15):
            return "?" + self.random.choice(QUERIES)
        names = self.random.sample([*call.query] * 3 + ["hold"], k=min(2, len(call.query) + 1))
        return "?" + "&".join(f"{name}={quoted(self._parameter(name))}" for name in names)

    def _parameter(self, name: str) -> str:
        if name == "turn":
            return self._id("turns")
        known = LIKELY.get(name, TEXTS)
        return str(self.random.choice(TEXTS if self._happens(0.1) else known))[:3000]

    def _content_type(self) -> str:
        odd = ("text/plain", "application/json; charset=utf-16", "a/b", "")
        return self.random.choice(odd) if self._happens(0.04) else "application/json"

    def _body(self, call: Call, lease: str | None) -> bytes | None:
        if self._happens(0.06):
            return self.random.choice(BODIES)
        if call.request is None:
            return self.random.choice((None, b"{}"))
        fields = self._object(call.request)
        if lease is not None and "lease_token" in fields and not self._happens(0.1):
            fields["lease_token"] = lease
        return json.dumps(fields).encode()

    def _object(self, model: type[BaseModel]) -> dict[str, Any]:
        fields = {
            name: self._value(name, info.annotation)
            for name, info in model.model_fields.items()
            if info.is_required() or self._happens(0.3)
        }
        if self._happens(0.03):
            fields[self.random.choice(("unknown", "\ud800", "x" * 300))] = 1
        return fields

    def _value(self, name: str, kind: Any) -> object:
        if self._happens(0.04):
            return self.random.choice((*VALUES, *TEXTS))
        known = LIKELY.get(name, ())
        return self.random.choice(known) if known and name != "state" else self._of(kind, name)

    def _of(self, kind: Any, name: str) -> object:
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Annotated:
            return self._of(arguments[0], name)
        if origin is typing.Literal:
            return self.random.choice(arguments)
        if origin in (typing.Union, types.UnionType):
            return self._of(self.random.choice(arguments), name)
        if origin is list:
            return [self._of(arguments[0], name) for _ in range(self.random.randrange(4))]
        if origin is dict:
            return {"calls": 1, "money": "2.5"}
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return self._object(kind)
        if isinstance(kind, type) and issubclass(kind, TurnState | MessageState):
            return self.random.choice(list(kind))
        if kind is bool:
            return self._happens(0.5)
        if kind in (int, float):
            return self.random.choice((0, 1, 5, 0.5, 100))
        return self.random.choice(TEXTS if kind is str else VALUES)


def quoted(text: str) -> str:
    """Every byte escaped, those of half characters too."""
    return "".join(f"%{octet:02X}" for octet in text.encode("utf-8", "surrogatepass"))
