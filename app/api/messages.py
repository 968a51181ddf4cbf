"""One message of a set, read and addressed: to the destination that it names, or to where its source is answered."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from app.api.addressing import Answering
from app.api.fields import Fields, escaped, shown
from app.api.follow_ups import Reach
from app.api.payloads import read_payload
from app.channels import HERE, Address, Draft, Reply
from app.core import Route
from app.domain.errors import InvalidContent
from app.domain.json_text import Kind
from app.domain.message import spell_address
from app.domain.model import DraftMessage
from app.domain.record import record
from app.domain.seal import message_hash, spell_place

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


@record(frozen=True, slots=True)
class MessageReader:
    """Reads the messages of one set."""

    reach: Reach
    routes: Mapping[str, Route]
    answering: Answering

    def read(self, fields: Fields, against: Fields) -> tuple[DraftMessage, bytes] | None:
        """One message and the hash of what was asked for, unless it is wrong in itself. What the configuration says is
        noted in `against`.
        """
        named = fields.string("destination")
        recipient = fields.text("to", bytes_max=RECIPIENT_BYTES_MAX)
        payload = read_payload(fields)
        headers = _headers(fields)
        delay = fields.seconds("delay_seconds", seconds_max=self.reach.limits.delay_seconds_max)
        conversation = self.reach.conversation(fields, against)
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
            place = spell_place(spelled, reply_of)
            is_asked = place is None and destination == named
            digest = asked if is_asked else hashed(destination=destination, place=place)
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
                against.refuse(f"headers/{escaped(name)}", "header_not_allowed")
        try:
            return route.check(draft, reply=reply)
        except InvalidContent as invalid:
            for one in invalid.problems:
                against.refuse(shown(one.pointer).removeprefix("/"), one.code, one.detail)
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
            fields.refuse(f"headers/{escaped(name)}", "wrong_type", "a string is needed")
    return headers
