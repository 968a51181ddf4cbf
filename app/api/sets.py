"""The set of a seal: every message read and addressed, with everything that is wrong with it.

What is wrong with a message in itself could never be sealed. What only the configuration says against it may have been
sealed before the configuration changed, and is told apart.
"""

from collections.abc import Sequence
from typing import Final, cast

from app.api.calls import Api
from app.api.fields import PROBLEMS_MAX, Fields
from app.api.payloads import read_payload
from app.api.problems import Refusal
from app.channels import Draft
from app.core import Route
from app.domain.errors import InvalidContent, Problem, SinksweepError
from app.domain.json_text import Kind
from app.domain.model import DraftMessage
from app.domain.seal import message_hash
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


def read_set(
    api: Api, fields: Fields, *, place: Place
) -> tuple[list[DraftMessage], SinksweepError | None]:
    """Read every message, and what the configuration says against the set.

    Raises `InvalidContent`, with both, for a set that is wrong in itself.
    """
    core = api.core
    queue = core.settings.queues.get(place.queue)
    routes = _routes(api, queue)
    given = fields.values.get("messages")
    if given is None:
        fields.refuse("messages", "required")
        given = []
    against: list[Problem] = []
    drafts: list[DraftMessage | None] = []
    for n, item in enumerate(cast("Sequence[dict[str, object]]", given)):
        pointer = f"/messages/{n}"
        draft = _read_message(
            Fields(item, pointer=pointer, problems=fields.problems),
            Fields(item, pointer=pointer, problems=against),
            any_conversation=queue is not None and queue.conversations == "any",
            place=place,
            routes=routes,
            limits=core.settings.limits,
        )
        drafts.append(draft)
    messages = [draft for draft in drafts if draft is not None]
    set_bytes_max = core.settings.limits.set_bytes_max
    if sum(len(message.body) for message in messages) > set_bytes_max:
        Fields({}, problems=against).refuse(
            "messages", "set_too_large", f"at most {set_bytes_max} bytes"
        )
    if fields.problems or len(messages) < len(drafts):
        raise InvalidContent(*[*fields.problems, *against][:PROBLEMS_MAX])
    if queue is None:
        # Another replica may know it. What it allows is not for this one to guess.
        return messages, Refusal("queue_not_configured", headers={"Retry-After": "5"})
    return messages, InvalidContent(*against) if against else None


def _routes(api: Api, queue: Queue | None) -> dict[str, Route]:
    if queue is None:
        return {}
    return {
        name: route
        for name, route in api.core.routes.items()
        if queue.destinations is None or name in queue.destinations
    }


def _read_message(
    fields: Fields,
    against: Fields,
    *,
    any_conversation: bool,
    place: Place,
    routes: dict[str, Route],
    limits: Limits,
) -> DraftMessage | None:
    """One message, unless it is wrong in itself. What the configuration says is noted in `against`."""
    destination = _destination(fields)
    recipient = fields.text("to", bytes_max=RECIPIENT_BYTES_MAX)
    payload = read_payload(fields)
    headers = _headers(fields)
    delay = fields.seconds("delay_seconds", seconds_max=limits.delay_seconds_max)
    conversation = fields.name("conversation", code="conversation_invalid")
    if conversation not in (None, place.conversation) and not any_conversation:
        against.refuse("conversation", "conversation_not_allowed")
    if destination is None or payload is None:
        return None
    content_type, body = payload
    draft = Draft(
        destination=destination,
        recipient=recipient,
        headers=headers,
        content_type=content_type,
        body=body,
    )
    route = routes.get(destination)
    if route is None:
        against.refuse("destination", "destination_unknown")
    else:
        _ask_route(against, route, draft)
    if conversation is None:
        conversation = place.conversation
    try:
        digest = message_hash(
            destination=destination,
            recipient=recipient,
            conversation=conversation,
            headers=headers,
            content_type=content_type,
            delay_seconds=delay,
            body=body,
        )
    except UnicodeEncodeError:
        # Half a character in a name, which no configuration allows.
        return None
    return DraftMessage(
        destination=destination,
        recipient=recipient,
        conversation=conversation,
        headers=headers,
        content_type=content_type,
        body=body,
        delay_seconds=delay,
        hash=digest,
    )


def _destination(fields: Fields) -> str | None:
    if fields.values.get("destination") is None:
        fields.refuse("destination", "destination_missing")
        return None
    return fields.string("destination")


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


def _ask_route(against: Fields, route: Route, draft: Draft) -> None:
    allowed = route.settings.to_allow
    if draft.recipient is not None and draft.recipient not in allowed and "*" not in allowed:
        against.refuse("to", "to_not_allowed")
    for name in draft.headers:
        if name.lower() not in route.settings.headers_allow:
            against.refuse(f"headers/{_escaped(name)}", "header_not_allowed")
    try:
        route.check(draft)
    except InvalidContent as invalid:
        for one in invalid.problems:
            against.refuse(_shown(one.pointer).removeprefix("/"), one.code, one.detail)


def _escaped(name: str) -> str:
    return _shown(name[:255]).replace("~", "~0").replace("/", "~1")


def _shown(text: str) -> str:
    """A name may hold half a surrogate pair, which no answer should."""
    return text.encode("utf-8", "replace").decode()
