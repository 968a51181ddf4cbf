"""Bugs at the door: how inbound are keyed, kept, acknowledged and joined."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from app.api import inbound as inbound_api
from app.domain.model import Accepted
from app.engine import accept, join
from tests.plants.planting import Edit, Plant, Swap

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

_BATCH_SECONDS = 0.05
_commits: set[asyncio.Task[None]] = set()


def _acknowledged_first(_transact: Any) -> Any:
    async def transact(
        pool: "Pool", work: "Callable[[Link], Awaitable[Any]]", **_options: object
    ) -> Any:
        connection = await pool.acquire(timeout=5)
        transaction = connection.transaction()
        await transaction.start()
        found = await work(connection)

        async def commit() -> None:
            with contextlib.suppress(Exception):
                await asyncio.sleep(_BATCH_SECONDS)
                await transaction.commit()
            await pool.release(connection)

        task = asyncio.get_running_loop().create_task(commit())
        _commits.add(task)
        task.add_done_callback(_commits.discard)
        return found

    return transact


def _minted_outside(accepted: Any) -> Any:
    def answer(row: Any, *, duplicate: bool, same_body: bool) -> Accepted:
        found: Accepted = accepted(row, duplicate=duplicate, same_body=same_body)
        return replace(found, turn=uuid4()) if duplicate else found

    return answer


def _conflict(answer: Any) -> Any:
    def answered(accepted: Accepted) -> Any:
        status, fields = answer(accepted)
        return (409 if accepted.duplicate else status), fields

    return answered


PLANTS = {
    "looked-up-first": Plant(
        "a key is looked up before it is inserted",
        [
            Edit(
                accept,
                "accept_inbound",
                {
                    "    order by given.place\n    on conflict do nothing": """
    and not exists (
        select from sink.idempotency_key as known
        where known.scope = (:scopes::text[])[given.number] and known.key = (:keys::text[])[given.nth]
    )
    order by given.place
    on conflict (scope, key) do update set inbound = excluded.inbound, turn = excluded.turn"""
                },
            ),
            Edit(
                accept,
                "accept_one",
                {
                    "    values (\n": "    select\n",
                    "key_seconds)\n    )\n    on conflict do nothing": """key_seconds)
    where not exists (
        select from sink.idempotency_key as known where known.scope = :scope and known.key = :key
    )
    on conflict (scope, key) do update set inbound = excluded.inbound, turn = excluded.turn""",
                },
            ),
        ],
    ),
    "acknowledged-first": Plant(
        "an accept is acknowledged before its commit",
        [Swap(accept, "transact", _acknowledged_first)],
    ),
    "minted-outside": Plant(
        "the handle is minted outside of the key", [Swap(accept, "_accepted", _minted_outside)]
    ),
    "through-jsonb": Plant(
        "a body is stored as JSON and written out again",
        [
            Edit(
                accept,
                "accept_inbound",
                {
                    "        (:bodies::bytea[])[number],\n": """
        convert_to(convert_from((:bodies::bytea[])[number], 'UTF8')::jsonb::text, 'UTF8'),
"""
                },
            ),
            Edit(
                accept,
                "accept_one",
                {
                    "        :body,\n": """
        convert_to(convert_from(:body, 'UTF8')::jsonb::text, 'UTF8'),
"""
                },
            ),
        ],
    ),
    "duplicate-409": Plant(
        "duplicates are answered with 409", [Swap(inbound_api, "accepted_answer", _conflict)]
    ),
    "join-claimed": Plant(
        "inbound join a turn that was claimed and put back",
        [
            Edit(join, "hold_joinable", {" and t.attempt = 0": ""}),
            Edit(join, "join_turns", {" and t.attempt = 0": ""}),
        ],
    ),
    "join-unlocked": Plant(
        "a turn is looked at without a lock before it is joined",
        [
            Edit(join, "hold_joinable", {"for no key update of t": ""}),
            Edit(
                join,
                "join_turns",
                {" and t.attempt = 0 and t.state in ('queued', 'waiting')": ""},
            ),
        ],
    ),
}
