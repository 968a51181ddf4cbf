"""The set of a seal: every message read and addressed, with everything that is wrong with it.

What is wrong with a message in itself could never be sealed. What only the configuration says against it may have been
sealed before the configuration changed, and is told apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast

from app.api.addressing import Answering, find_answering
from app.api.calls import Api
from app.api.fields import PROBLEMS_MAX, Fields
from app.api.payloads import read_payload
from app.api.problems import Refusal
from app.channels import HERE, Address, Draft, Reply
from app.core import Route, spell_address
from app.domain.errors import InvalidContent, Problem, SinksweepError
from app.domain.json_text import Kind
from app.domain.model import DraftMessage
from app.domain.seal import message_hash, spell_place
from app.engine.inspect import Place
from app.settings import Limits, Queue

RECIPIENT_BYTES_MAX: Final = 1000

MESSAGE: Final = {
    "destination": Kind.VALUE,
    "to": Kind.VALUE,
    "payload": Kind.RAW,
    "payload_base64": Kind.VALUE,
    "content_type": Kind.VALUE,
    "headers": Kind.VALUE,
    "delay_seconds": Kind.VALUE,
    "conversation": Kind.VALUE,
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """A set as it was asked for, with what the configuration says against it.

    `asked` has a hash for each message as the agent wrote it: where that goes by itself may be another answer tomorrow.
    """

    messages: list[DraftMessage]
    asked: list[bytes]
    against: SinksweepError | None


async def read_set(api: Api, fields: Fields, *, place: Place) -> Proposal:
    """Read every message, and what the configuration says against the set.

    Raises `InvalidContent`, with both, for a set that is wrong in itself.
    """
    core = api.core
    queue = core.settings.queues.get(place.queue)
    given = fields.values.get("messages")
    if given is None:
        fields.refuse("messages", "required")
        given = []
    items = cast("Sequence[dict[str, object]]", given)
    reader = _Reader(
        place=place,
        routes=_routes(api, queue),
        limits=core.settings.limits,
        any_conversation=queue is not None and queue.conversations == "any",
        answering=await find_answering(api, items, place=place),
    )
    against: list[Problem] = []
    read: list[tuple[DraftMessage, bytes] | None] = []
    for n, item in enumerate(items):
        pointer = f"/messages/{n}"
        draft = reader.read(
            Fields(item, pointer=pointer, problems=fields.problems),
            Fields(item, pointer=pointer, problems=against),
        )
        read.append(draft)
    whole = [one for one in read if one is not None]
    messages = [message for message, _ in whole]
    set_bytes_max = core.settings.limits.set_bytes_max
    if sum(len(message.body) for message in messages) > set_bytes_max:
        Fields({}, problems=against).refuse(
            "messages", "set_too_large", f"at most {set_bytes_max} bytes"
        )
    if fields.problems or len(messages) < len(read):
        raise InvalidContent(*[*fields.problems, *against][:PROBLEMS_MAX])
    refusal: SinksweepError | None = InvalidContent(*against) if against else None
    if queue is None:
        # Another replica may know it. What it allows is not for this one to guess.
        refusal = Refusal("queue_not_configured", headers={"Retry-After": "5"})
    return Proposal(messages, [asked for _, asked in whole], refusal)


def _routes(api: Api, queue: Queue | None) -> dict[str, Route]:
    if queue is None:
        return {}
    return {
        name: route
        for name, route in api.core.routes.items()
        if queue.destinations is None or name in queue.destinations
    }


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the messages of one set."""

    place: Place
    routes: dict[str, Route]
    limits: Limits
    any_conversation: bool
    answering: Answering

    def read(self, fields: Fields, against: Fields) -> tuple[DraftMessage, bytes] | None:
        """One message and the hash of what was asked for, unless it is wrong in itself. What the configuration says is
        noted in `against`.
        """
        named = fields.string("destination")
        recipient = fields.text("to", bytes_max=RECIPIENT_BYTES_MAX)
        payload = read_payload(fields)
        headers = _headers(fields)
        delay = fields.seconds("delay_seconds", seconds_max=self.limits.delay_seconds_max)
        conversation = fields.name("conversation", code="conversation_invalid")
        if conversation not in (None, self.place.conversation) and not self.any_conversation:
            against.refuse("conversation", "conversation_not_allowed")
        if conversation is None:
            conversation = self.place.conversation
        if payload is None or (named is None and fields.values.get("destination") is not None):
            return None
        content_type, body = payload
        destination = self._destination(against, named)
        draft = Draft(
            destination=destination,
            recipient=recipient,
            headers=headers,
            content_type=content_type,
            body=body,
        )
        address = self._address(against, draft, conversation)
        route = self.routes.get(destination)
        spelled, reply_of = spell_address(address), None
        if address.uses_reply:
            reply_of = self.answering.reply_of
        hashed = partial(
            message_hash,
            recipient=recipient,
            conversation=conversation,
            headers=headers,
            content_type=content_type,
            delay_seconds=delay,
            body=body,
        )
        try:
            # Before there were sources, what was asked for was what was sealed.
            asked = hashed(destination=named or "")
            digest = hashed(destination=destination, place=spell_place(spelled, reply_of))
        except UnicodeEncodeError:
            # Half a character in a name, which no configuration allows.
            return None
        message = DraftMessage(
            destination=destination,
            recipient=recipient,
            conversation=conversation,
            headers=headers,
            content_type=content_type,
            body=body,
            delay_seconds=delay,
            hash=digest,
            address=spelled,
            reply_of=reply_of,
            expires_at=None if reply_of is None else self.answering.expires_at,
            pace_seconds=(route.settings.pace_seconds or 0.0) if route is not None else 0.0,
        )
        return message, asked

    def _destination(self, against: Fields, named: str | None) -> str:
        """The destination that a message names, else that of its source; nothing where neither is one."""
        destination = named if named is not None else self.answering.destination
        if destination is None:
            against.refuse("destination", "destination_missing")
            return ""
        if destination not in self.routes:
            against.refuse("destination", "destination_unknown")
        return destination

    def _address(self, against: Fields, draft: Draft, conversation: str | None) -> Address:
        """Where its channel sends it; what is wrong with it, or not allowed there, is noted in `against`."""
        route = self.routes.get(draft.destination)
        if route is None:
            return HERE
        reply = self.answering.reply(conversation)
        if draft.recipient is not None and not _allows(route, draft, reply):
            against.refuse("to", "to_not_allowed")
        for name in draft.headers:
            if name.lower() not in route.settings.headers_allow:
                against.refuse(f"headers/{_escaped(name)}", "header_not_allowed")
        try:
            return route.check(draft, reply=reply)
        except InvalidContent as invalid:
            for one in invalid.problems:
                against.refuse(_shown(one.pointer).removeprefix("/"), one.code, one.detail)
        return HERE


def _allows(route: Route, draft: Draft, reply: Reply | None) -> bool:
    """Whether the agent may name this recipient: one of those allowed, or the one whom it answers anyway."""
    allowed = route.settings.to_allow
    if draft.recipient in allowed or "*" in allowed:
        return True
    try:
        own = route.check(replace(draft, recipient=None), reply=reply)
        return bool(own.parts) and route.check(draft, reply=reply) == own
    except InvalidContent:
        return False


def _headers(fields: Fields) -> dict[str, str]:
    value = fields.values.get("headers")
    if value is None:
        return {}
    if not isinstance(value, dict):
        fields.refuse("headers", "wrong_type", "an object of strings is needed")
        return {}
    headers: dict[str, str] = {}
    for name, text in value.items():
        if isinstance(text, str):
            headers[name] = text
        else:
            fields.refuse(f"headers/{_escaped(name)}", "wrong_type", "a string is needed")
    return headers


def _escaped(name: str) -> str:
    return _shown(name[:255]).replace("~", "~0").replace("/", "~1")


def _shown(text: str) -> str:
    """A name may hold half a surrogate pair, which no answer should."""
    return text.encode("utf-8", "replace").decode()
