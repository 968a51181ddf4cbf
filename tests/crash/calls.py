"""A verb call as a value: it can be made here, made again, or made by a process that dies of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from app.domain.model import Decision, Parking, Signal, Taken, Verdict
from app.domain.notice import NoticeRoute
from app.engine import cancel, erase, purge, redrive, resolve
from app.engine.expire import expire_pages
from app.engine.operation import find_operation
from app.engine.operation_batch import work_on
from app.engine.resend import Resend
from tests.engine.held_stories import decide, expire
from tests.engine.stories import CRM, DELIVERY_POLICY, QUEUE, TURN_POLICY, Sink, wish
from tests.engine.walks import WINDOWS

BY = "somebody"
# Whoever is to be told is told where everything goes.
ROUTES = {QUEUE: NoticeRoute(escalate_to=CRM)}

Verb = Callable[..., Awaitable[object]]


async def _claim(sink: Sink, **changes: Any) -> object:
    return await sink.claim_for(wish(**changes))


async def _settle(sink: Sink, *pairs: tuple[Taken, Verdict]) -> object:
    return await sink.settle(*pairs)


async def _cancel_turns(sink: Sink, *turns: UUID) -> object:
    return await cancel.cancel_turns(sink.pool, turns, by=BY)


async def _cancel_messages(sink: Sink, *messages: UUID) -> object:
    return await cancel.cancel_messages(sink.pool, messages, by=BY)


async def _redrive_turns(sink: Sink, *turns: UUID) -> object:
    return await redrive.redrive_turns(sink.pool, turns, by=BY)


async def _redrive_messages(sink: Sink, *messages: UUID) -> object:
    return await redrive.redrive_messages(sink.pool, messages, by=BY)


async def _take_resends(sink: Sink) -> object:
    return await sink.take_resends()


async def _settle_resends(sink: Sink, *pairs: tuple[Resend, Verdict]) -> object:
    return await sink.settle_resends(*pairs)


async def _resolve(sink: Sink, *messages: UUID, state: Any) -> object:
    return await resolve.resolve_messages(sink.pool, messages, state=state, by=BY)


async def _purge(sink: Sink) -> object:
    return await purge.purge(sink.pool, windows=WINDOWS, after=purge.FIRST, rows_max=50)


async def _drop_lanes(sink: Sink, table: Any) -> object:
    return await expire_pages(sink.pool, table, first=0, behind=50)


async def _erase(sink: Sink, name: str) -> object:
    conversation = erase.Conversation(QUEUE, name, is_open=True)
    erased = await erase.erase(sink.pool, conversation, windows=WINDOWS, cancel=False, by=BY)
    return isinstance(erased, erase.Erased) and erased.is_done


async def _operate(sink: Sink, operation: UUID) -> object:
    await work_on(sink.pool, operation, rows_max=50)
    found = await find_operation(sink.pool, operation)
    return found and (found.state, found.found, found.changed, found.refused, found.failed)


async def _park(sink: Sink, *parkings: Parking) -> object:
    return await sink.park(*parkings)


async def _signal(sink: Sink, *signals: Signal) -> object:
    return await sink.signal(*signals)


async def _decide(sink: Sink, *decisions: Decision) -> object:
    return await decide(sink, *decisions)


async def _expire(sink: Sink) -> object:
    return await expire(sink)


async def _escalate(sink: Sink) -> object:
    return await sink.escalate(routes=ROUTES)


VERBS: dict[str, Verb] = {
    "accept": Sink.accept,
    "claim": _claim,
    "renew": Sink.renew,
    "release": Sink.release,
    "seal": Sink.seal,
    "take": Sink.take,
    "settle": _settle,
    "tell": Sink.tell,
    "sweep turns": Sink.sweep_turns,
    "sweep messages": Sink.sweep_messages,
    "due": Sink.due,
    "due after pause": Sink.due_after_pause,
    "pause": Sink.pause,
    "resume": Sink.resume,
    "redrive turns": _redrive_turns,
    "redrive messages": _redrive_messages,
    "cancel turns": _cancel_turns,
    "cancel messages": _cancel_messages,
    "resolve": _resolve,
    "resend": Sink.ask_resend,
    "take resends": _take_resends,
    "settle resends": _settle_resends,
    "sweep resends": Sink.sweep_resends,
    "operate": _operate,
    "purge": _purge,
    "drop lanes": _drop_lanes,
    "erase": _erase,
    "park": _park,
    "signal": _signal,
    "wake parked": Sink.wake_parked,
    "decide": _decide,
    "expire": _expire,
    "escalate": _escalate,
}


@dataclass(frozen=True, slots=True)
class Call:
    """A verb and what it is given."""

    verb: str
    arguments: tuple[object, ...] = ()
    options: tuple[tuple[str, object], ...] = ()
    attempts_max: int = 5

    async def made(self, sink: Sink) -> object:
        """Make it; returns its answer."""
        configured = replace(
            sink,
            turn_policies={QUEUE: replace(TURN_POLICY, attempts_max=self.attempts_max)},
            delivery_policies={CRM: replace(DELIVERY_POLICY, attempts_max=self.attempts_max)},
        )
        return await VERBS[self.verb](configured, *self.arguments, **dict(self.options))
