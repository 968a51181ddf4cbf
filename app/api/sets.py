"""The set of a seal: every message and follow-up read and addressed, with everything that is wrong with it.

What is wrong with one in itself could never be sealed. What only the configuration says against it may have been
sealed before the configuration changed, and is told apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from app.api.addressing import find_answering
from app.api.calls import Api
from app.api.fields import PROBLEMS_MAX, Fields
from app.api.follow_ups import Reach, read_follow_up
from app.api.messages import MessageReader
from app.api.problems import queue_not_configured
from app.core import Route
from app.domain.errors import InvalidContent, Problem, SinksweepError
from app.domain.model import DraftFollowUp, DraftMessage
from app.domain.record import record
from app.settings import Queue


@record(frozen=True, slots=True)
class Proposed:
    """A set as it was proposed, and what the configuration says against it. `routes` are where its messages go.

    `asked` has a hash for each message as it was written: where that goes by itself may be another answer tomorrow.
    """

    messages: Sequence[DraftMessage]
    asked: Sequence[bytes]
    follow_ups: Sequence[DraftFollowUp]
    routes: Sequence[Route | None]
    against: SinksweepError | None


async def read_set(api: Api, fields: Fields, *, reach: Reach) -> Proposed:
    """Read every message and follow-up, and what the configuration says against the set.

    Raises `InvalidContent`, with both, for a set that is wrong in itself.
    """
    core = api.core
    queue = core.settings.queues.get(reach.place.queue)
    routes = _routes(api, queue)
    if fields.values.get("messages") is None:
        fields.refuse("messages", "required")
    against: list[Problem] = []
    given = cast("Sequence[dict[str, object]]", fields.values.get("messages") or ())
    reader = MessageReader(reach, routes, await find_answering(api, given, place=reach.place))
    drafts = [reader.read(own, other) for own, other in _items(fields, "messages", against)]
    later = [
        read_follow_up(own, other, reach) for own, other in _items(fields, "follow_ups", against)
    ]
    read = [draft for draft in drafts if draft is not None]
    messages, asked = [message for message, _ in read], [written for _, written in read]
    follow_ups = [draft for draft in later if draft is not None]
    whole = Fields({}, problems=against)
    _check_limits(whole, messages, follow_ups, reach)
    if fields.problems or len(messages) < len(drafts) or len(follow_ups) < len(later):
        raise InvalidContent(*[*fields.problems, *against][:PROBLEMS_MAX])
    ways = [routes.get(message.destination) for message in messages]
    if queue is None:
        # Another replica may know it. What it allows is not for this one to guess.
        return Proposed(messages, asked, follow_ups, ways, queue_not_configured())
    refused = InvalidContent(*against) if against else None
    return Proposed(messages, asked, follow_ups, ways, refused)


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


def _routes(api: Api, queue: Queue | None) -> Mapping[str, Route]:
    if queue is None:
        return {}
    if queue.destinations is None:
        return api.core.routes
    return {name: route for name, route in api.core.routes.items() if name in queue.destinations}
