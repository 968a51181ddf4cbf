"""Bugs in the middle: leases, sweeps, attempts, seals."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg

from app.engine import (
    cancel,
    claim,
    message_set,
    put_back,
    renew,
    seal,
    statements,
    sweep,
    too_old,
)
from tests.plants.planting import Edit, Plant, Swap

if TYPE_CHECKING:
    from app.engine.statements import Link, Statement

RETRIED = (asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError, asyncpg.SerializationError)

_HELD = "inner join sink.turn as t on t.id = item.turn and t.token = item.token"
_HELD_BY_ANYBODY = "inner join sink.turn as t on t.id = item.turn and t.state = 'processing'"


class _Later:
    """Messages of a seal that are recorded after its transaction, each batch in one of its own."""

    def __init__(self, *, first: int) -> None:
        self._first = first
        self._left: list[Any] = []

    def record(self, record: Any) -> Any:
        async def recorded(
            connection: "Link", moves: list[Any], messages: list[Any], *, verb: str
        ) -> Any:
            self._left += messages[self._first :]
            return await record(connection, moves, messages[: self._first], verb=verb)

        self._record = record
        return recorded

    def transact(self, transact: Any) -> Any:
        async def transacted(pool: Any, work: Any, **options: Any) -> Any:
            found = await transact(pool, work, **options)
            left, self._left = self._left, []
            if left:
                await transact(
                    pool, lambda connection: self._record(connection, [], left, verb="seal")
                )
            return found

        return transacted

    @property
    def changes(self) -> list[Edit | Swap]:
        return [Swap(seal, "record_sets", self.record), Swap(seal, "transact", self.transact)]


def _statement_retried(run: Any) -> Any:
    async def retried(self: "Statement", connection: "Link", **values: object) -> Any:
        try:
            return await run(self, connection, **values)
        except RETRIED:
            await connection.execute("rollback")
            await connection.execute("begin")
            return await run(self, connection, **values)

    return retried


def _nobody_next(_promote: Any) -> Any:
    async def promote(_connection: "Link", _turns: list[UUID]) -> list[Any]:
        return []

    return promote


PLANTS = {
    "pause-ignored": Plant(
        "a claim does not look whether its queue is paused",
        [Edit(claim, "claim_turns", {"or (p.kind = 'queue' and": "or (false and"})],
    ),
    "old-keeps-lane": Plant(
        "input that is too old fails and keeps its lane",
        [Swap(too_old, "promote", _nobody_next)],
    ),
    "blind-sweep": Plant(
        "the sweep looks at a lease without a lock and writes without looking again",
        [Edit(put_back, "lock_held", {"for no key update of t": ""})],
    ),
    "renew-tokenless": Plant(
        "renew does not compare tokens",
        [
            Edit(
                renew,
                "renew_leases",
                {
                    "select t.id, t.token\n": "select t.id, item.token\n",
                    _HELD: _HELD_BY_ANYBODY,
                    "where t.id = held.id and t.token = held.token": "where t.id = held.id",
                    "t.id, t.token, t.lease_seconds": "t.id, held.token, t.lease_seconds",
                },
            )
        ],
    ),
    "seal-tokenless": Plant(
        "seal does not compare tokens",
        [
            Edit(
                seal,
                "hold_turns",
                {
                    _HELD: _HELD_BY_ANYBODY,
                    "        t.id, t.token, t.queue": "        t.id, item.token, t.queue",
                },
            ),
            Edit(
                message_set,
                "record_sets",
                {"t.id = item.turn and t.token = item.token": "t.id = item.turn"},
            ),
        ],
    ),
    "seal-in-two": Plant("a set is recorded in two transactions", _Later(first=1).changes),
    "messages-after": Plant("messages are added after the seal's commit", _Later(first=0).changes),
    "no-promote": Plant(
        "the seal frees its lane and promotes nobody",
        [
            Edit(
                message_set,
                "record_sets",
                {"where t.id = freed.next and t.state = 'waiting'": "where false"},
            )
        ],
    ),
    "uncounted-crash": Plant(
        "attempts are counted at the handled error, not at the claim",
        [
            Edit(
                claim,
                "claim_turns",
                {"attempts_used = t.attempts_used + 1": "attempts_used = t.attempts_used"},
            ),
            Edit(
                put_back,
                "put_back",
                {
                    "t.attempts_used - (not item.counted)::int": "t.attempts_used + (item.verb = 'fail')::int"
                },
            ),
        ],
    ),
    "counted-twice": Plant(
        "the sweep counts an attempt that its claim has counted",
        [
            Edit(
                put_back,
                "put_back",
                {
                    "t.attempts_used - (not item.counted)::int": "t.attempts_used - (not item.counted)::int"
                    " + (item.verb = 'sweep')::int"
                },
            )
        ],
    ),
    "token-again": Plant(
        "lease tokens begin anew",
        [
            Edit(
                claim,
                "claim_turns",
                {"token = gen_random_uuid()": "token = md5(t.id::text || t.attempts_used)::uuid"},
            )
        ],
    ),
    "statement-retried": Plant(
        "after a deadlock the statement is tried again, not the transaction",
        [
            Swap(statements.Statement, "rows", _statement_retried),
            Swap(statements.Statement, "run", _statement_retried),
        ],
    ),
    "own-clock": Plant(
        "the sweep compares leases with the clock of its own machine",
        [
            Edit(sweep, "find_lapsed_turns", {"sink.now()": "clock_timestamp()"}),
            Edit(put_back, "lock_held", {"sink.now()": "clock_timestamp()"}),
        ],
    ),
    "cancel-spares": Plant(
        "cancelling a sealed turn spares what is being sent",
        [
            Edit(
                cancel,
                "find_undelivered",
                {
                    "o.state not in ('delivered', 'cancelled')": "o.state in ('pending', 'dead', 'unknown')"
                },
            )
        ],
    ),
}
