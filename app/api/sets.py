"""The set of a seal: every message and follow-up read and addressed, with everything that is wrong with it.

What is wrong with one in itself could never be sealed. What only the configuration says against it may have been
sealed before the configuration changed, and is told apart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

from app.api.calls import Api
from app.api.fields import PROBLEMS_MAX, Fields, escaped, shown
from app.api.follow_ups import Reach, read_follow_up
from app.api.payloads import read_payload
from app.api.problems import Refusal
from app.channels import Draft
from app.core import Route
from app.domain.errors import InvalidContent, Problem, SinksweepError
from app.domain.json_text import Kind
from app.domain.model import DraftFollowUp, DraftMessage
from app.domain.seal import message_hash
from app.settings import Queue

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
class Proposed:
    """A set as it was proposed, and what the configuration says against it. `routes` are where its messages go."""

    messages: Sequence[DraftMessage]
    follow_ups: Sequence[DraftFollowUp]
    routes: Sequence[Route | None]
    against: SinksweepError | None


def read_set(api: Api, fields: Fields, *, reach: Reach) -> Proposed:
    """Read every message and follow-up, and what the configuration says against the set.

    Raises `InvalidContent`, with both, for a set that is wrong in itself.
    """
    core = api.core
    queue = core.settings.queues.get(reach.place.queue)
    routes = _routes(api, queue)
    if fields.values.get("messages") is None:
        fields.refuse("messages", "required")
    against: list[Problem] = []
    drafts = [
        _read_message(own, other, routes=routes, reach=reach)
        for own, other in _items(fields, "messages", against)
    ]
    later = [
        read_follow_up(own, other, reach) for own, other in _items(fields, "follow_ups", against)
    ]
    messages = [draft for draft in drafts if draft is not None]
    follow_ups = [draft for draft in later if draft is not None]
    whole = Fields({}, problems=against)
    _check_limits(whole, messages, follow_ups, reach)
    if fields.problems or len(messages) < len(drafts) or len(follow_ups) < len(later):
        raise InvalidContent(*[*fields.problems, *against][:PROBLEMS_MAX])
    ways = [routes.get(message.destination) for message in messages]
    if queue is None:
        # Another replica may know it. What it allows is not for this one to guess.
        refusal = Refusal("queue_not_configured", headers={"Retry-After": "5"})
        return Proposed(messages, follow_ups, ways, refusal)
    refused = InvalidContent(*against) if against else None
    return Proposed(messages, follow_ups, ways, refused)


def _items(fields: Fields, name: str, against: list[Problem]) -> Iterator[tuple[Fields, Fields]]:
    """Each item of a list: for what is wrong with it in itself, and for what the configuration says against it."""
    given = cast("Sequence[dict[str, object]]", fields.values.get(name) or ())
    for n, item in enumerate(given):
        pointer = f"/{name}/{n}"
        yield (
            Fields(item, pointer=pointer, problems=fields.problems),
            Fields(item, pointer=pointer, problems=against),
        )


def _check_limits(
    against: Fields,
    messages: Sequence[DraftMessage],
    follow_ups: Sequence[DraftFollowUp],
    reach: Reach,
) -> None:
    limits = reach.limits
    size = sum(len(one.body) for one in messages) + sum(len(one.body) for one in follow_ups)
    if size > limits.set_bytes_max:
        against.refuse("messages", "set_too_large", f"at most {limits.set_bytes_max} bytes")
    if follow_ups and reach.depth is not None and reach.depth.depth >= limits.depth_max:
        against.refuse("follow_ups", "depth_exceeded", f"at most {limits.depth_max} deep")


def _routes(api: Api, queue: Queue | None) -> dict[str, Route]:
    if queue is None:
        return {}
    return {
        name: route
        for name, route in api.core.routes.items()
        if queue.destinations is None or name in queue.destinations
    }


def _read_message(
    fields: Fields, against: Fields, *, routes: dict[str, Route], reach: Reach
) -> DraftMessage | None:
    """One message, unless it is wrong in itself. What the configuration says is noted in `against`."""
    destination = _destination(fields)
    recipient = fields.text("to", bytes_max=RECIPIENT_BYTES_MAX)
    payload = read_payload(fields)
    headers = _headers(fields)
    delay = fields.seconds("delay_seconds", seconds_max=reach.limits.delay_seconds_max)
    conversation = fields.name("conversation", code="conversation_invalid")
    if conversation not in (None, reach.place.conversation) and not reach.any_conversation:
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
        conversation = reach.place.conversation
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
            fields.refuse(f"headers/{escaped(name)}", "wrong_type", "a string is needed")
    return headers


def _ask_route(against: Fields, route: Route, draft: Draft) -> None:
    allowed = route.settings.to_allow
    if draft.recipient is not None and draft.recipient not in allowed and "*" not in allowed:
        against.refuse("to", "to_not_allowed")
    for name in draft.headers:
        if name.lower() not in route.settings.headers_allow:
            against.refuse(f"headers/{escaped(name)}", "header_not_allowed")
    try:
        route.check(draft)
    except InvalidContent as invalid:
        for one in invalid.problems:
            against.refuse(shown(one.pointer).removeprefix("/"), one.code, one.detail)
