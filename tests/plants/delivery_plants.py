"""Bugs at the sink: keys, confirmations, order, retries."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.channels import webhook
from app.domain.errors import NotReady
from app.domain.model import Taken
from app.domain.outcome import Answer, Delivered, Outcome
from app.engine import (
    breaker,
    confirm,
    delivery,
    earlier,
    message_set,
    redrive,
    resend,
    settle,
    sweep,
    take,
)
from app.workers.deliverer import Deliverer
from tests.plants.planting import Edit, Plant, Swap

log = logging.getLogger(__name__)

REST_SECONDS = 3600.0


def _key_per_attempt(taken: Any) -> Any:
    def made(row: Any, before: Any) -> Taken:
        one: Taken = taken(row, before)
        return replace(one, key=f"{one.key}-{one.attempt}")

    return made


def _under_500(judge: Any) -> Any:
    def judged(answer: Answer, *, after_seconds: float | None) -> Outcome:
        if answer.status < 500:
            return Delivered(answer=answer)
        outcome: Outcome = judge(answer, after_seconds=after_seconds)
        return outcome

    return judged


def _before_the_answer(send: Any) -> Any:
    async def sent(self: Any, taken: Taken) -> None:
        self._in_flight[taken.destination] += 1
        self._ended.put_nowait((taken, Delivered()))
        await send(self, taken)

    return sent


def _asleep(tick: Any) -> Any:
    async def ticked(self: Deliverer) -> float:
        await tick(self)
        return REST_SECONDS

    return ticked


def _swallowed(_until_written: Any) -> Any:
    async def written(self: Any, batch: Sequence[Any]) -> None:
        try:
            await self._write(batch, [self._settlement(*one) for one in batch])
        except NotReady:
            log.warning("not confirmed")

    return written


PLANTS = {
    "key-per-attempt": Plant(
        "each attempt has a key of its own", [Swap(take, "taken_of", _key_per_attempt)]
    ),
    "confirmed-by-404": Plant(
        "any status under 500 confirms", [Swap(webhook, "_judge", _under_500)]
    ),
    "confirmed-unanswered": Plant(
        "a message is confirmed before its answer came",
        [Swap(Deliverer, "_send", _before_the_answer)],
    ),
    "swallowed-confirmation": Plant(
        "a confirmation that cannot be written is forgotten",
        [Swap(Deliverer, "_until_written", _swallowed)],
    ),
    "no-polling": Plant(
        "work is only found when it is told of", [Swap(Deliverer, "tick", _asleep)]
    ),
    "replied-by-one": Plant(
        "a turn is replied when one message is confirmed",
        [
            Edit(
                delivery,
                "settle_turns",
                {"bool_and(o.state = 'delivered')": "bool_or(o.state = 'delivered')"},
            ),
            Edit(confirm, "confirm_messages", {"bool_and(o.state": "bool_or(o.state"}),
        ],
    ),
    "replied-unlocked": Plant(
        "whether a set is confirmed is looked up without a lock on its turn",
        [Edit(delivery, "lock_for_messages", {"for no key update": ""})],
    ),
    "order-by-id": Plant(
        "the order in a lane is that of ids",
        [
            Edit(
                message_set,
                "record_sets",
                {
                    "o.place < message.place": "o.id < message.id",
                    "order by o.place desc": "order by o.id desc",
                },
            )
        ],
    ),
    "blind-take": Plant(
        "a later message is sent during the back-off of an earlier one",
        [
            Edit(
                take,
                "take_messages",
                {
                    " and o.blocked_by is null": "",
                    "        reason = null,\n": "        reason = null, blocked_by = null,"
                    " due_since = coalesce(o.due_since, o.due_at),\n",
                },
            )
        ],
    ),
    "pause-unsent": Plant(
        "a take does not look whether its destination is paused",
        [Edit(take, "take_messages", {"or (p.kind = 'destination' and": "or (false and"})],
    ),
    "still-ages": Plant(
        "a message ages while its destination stands still",
        [Edit(earlier, "find_earlier", {"select sum(extract(": "select 0 * sum(extract("})],
    ),
    "never-probed": Plant(
        "a breaker that is open is never tried again",
        [Edit(take, "take_messages", {"then least(free, 1)": "then 0"})],
    ),
    "never-given-back": Plant(
        "what ends still counts as being sent",
        [
            Edit(breaker, "end_attempts", {"d.sending - decided.ended": "d.sending"}),
            Edit(confirm, "confirm_messages", {"d.sending - held.messages": "d.sending"}),
        ],
    ),
    "strict-forgotten": Plant(
        "who waited in a strict set waits for its lane alone, once that moves on",
        [
            Edit(delivery, "move_on", {"f.strict\n                        or (": "false or ("}),
            Edit(
                confirm,
                "confirm_messages",
                {"f.strict\n                        or (": "false or ("},
            ),
        ],
    ),
    "held-swept": Plant(
        "a sweep repeats what waits for a person",
        [Edit(sweep, "find_lapsed_messages", {"hold_unknown": "false as hold_unknown"})],
    ),
    "resend-forgotten": Plant(
        "a resend whose worker died is done with",
        [
            Edit(
                resend,
                "find_lapsed_resends",
                {"hold_unknown": "true as hold_unknown"},
            )
        ],
    ),
    "one-blocker": Plant(
        "who waited for a message that is gone waits for nobody",
        [
            *(
                Edit(
                    module,
                    name,
                    {
                        "blocked_by = next.blocker,": "blocked_by = null,",
                        "when next.blocker is null\n": "when true\n",
                    },
                )
                for module, name in ((delivery, "move_on"), (confirm, "confirm_messages"))
            ),
        ],
    ),
    "parallel-redrive": Plant(
        "a redrive begins another attempt beside the one that runs",
        [
            Edit(
                redrive,
                "redrive_messages",
                {
                    "o.state in ('dead', 'unknown')": "o.state in ('dead', 'unknown', 'sending')",
                    "attempts_used = 0": "attempts_used = 0, attempt_id = null, lease_expires_at = null",
                },
            ),
        ],
    ),
    "stop-ignored": Plant(
        "a message that is cancelled while it is sent is tried again",
        [
            Edit(
                settle,
                "settle_messages",
                {
                    "state = case when o.cancel_asked and item.state <> 'delivered' then 'cancelled' else"
                    " item.state end": "state = item.state",
                },
            )
        ],
    ),
    "doubt-forgotten": Plant(
        "a swept attempt is forgotten as one that may have arrived",
        [
            Edit(
                settle,
                "settle_messages",
                {"o.may_have_arrived or item.may_have_arrived": "item.state = 'unknown'"},
            )
        ],
    ),
}
