"""A verb call as a value: it can be made here, made again, or made by a process that dies of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from app.domain.model import Taken, Verdict
from app.engine import cancel, redrive, resolve
from tests.engine.stories import CRM, DELIVERY_POLICY, QUEUE, TURN_POLICY, Sink, wish

BY = "somebody"

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


async def _resolve(sink: Sink, *messages: UUID, state: Any) -> object:
    return await resolve.resolve_messages(sink.pool, messages, state=state, by=BY)


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
    "redrive turns": _redrive_turns,
    "redrive messages": _redrive_messages,
    "cancel turns": _cancel_turns,
    "cancel messages": _cancel_messages,
    "resolve": _resolve,
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
