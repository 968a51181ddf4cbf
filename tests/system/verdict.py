"""What must be true after every fault: of what was acknowledged, received, told and kept, and that all of it went on."""

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from app.domain.ids import INBOUND_PREFIX, TURN_PREFIX, format_id
from app.domain.lifecycle import MESSAGE_MOVES, TURN_MOVES
from tests.engine.invariants import broken
from tests.receiver import Receiver
from tests.system.provider import Provider

if TYPE_CHECKING:
    from tests.database import Admin

POLL_SECONDS = 0.02

KEPT = """
    select k.key, i.id, i.turn, i.body from sink.idempotency_key as k
    inner join sink.inbound as i on i.id = k.inbound
"""
SEALED = """
    select p.key, p.body, o.state, o.turn, o.conversation, o.destination, o.place, o.position
    from sink.outbox as o inner join sink.outbox_payload as p on p.message = o.id
"""


async def all_replied(admin: "Admin", *, turns: int, seconds_max: float = 25.0) -> None:
    """Wait until there are this many turns, and all of them are replied."""
    states: dict[str, int] = {}
    try:
        async with asyncio.timeout(seconds_max):
            while states != {"replied": turns}:
                await asyncio.sleep(POLL_SECONDS)
                rows = await admin.fetch("select state, count(*) from sink.turn group by state")
                states = dict(rows)
    except TimeoutError:
        raise AssertionError(f"of {turns} turns: {states}") from None


async def faults(
    admin: "Admin",
    *,
    provider: Provider | None = None,
    receiver: Receiver | None = None,
) -> list[str]:
    """Everything that is not as it must be, as sentences."""
    found = [f"{rule}: {rows}" for rule, rows in (await broken(admin)).items()]
    found += await _undeclared(admin)
    if provider is not None:
        found += await _unkept(admin, provider)
    if receiver is not None:
        found += await _misdelivered(admin, receiver)
    return found


async def _undeclared(admin: "Admin") -> list[str]:
    rows = await admin.fetch(
        "select distinct verb, from_state, to_state, message is null as of_turn from sink.event"
    )
    return [
        f"an undeclared move: {dict(row)}"
        for row in rows
        if (row["from_state"], row["to_state"])
        not in (TURN_MOVES if row["of_turn"] else MESSAGE_MOVES).get(row["verb"], ())
    ]


async def _unkept(admin: "Admin", provider: Provider) -> list[str]:
    kept = {row["key"]: row for row in await admin.fetch(KEPT)}
    found = [f"kept and never sent: {key}" for key in kept.keys() - provider.payloads.keys()]
    for key, handles in provider.handles.items():
        if len(handles) != 1:
            found.append(f"{key} was given {handles}")
        if key not in kept:
            found.append(f"{key} was acknowledged and is lost")
            continue
        row = kept[key]
        handle = (format_id(INBOUND_PREFIX, row["id"]), format_id(TURN_PREFIX, row["turn"]))
        if handle not in handles:
            found.append(f"{key} was given {handles} and is {handle}")
        if row["body"] != provider.payloads[key]:
            found.append(f"{key} is kept as {row['body']!r}")
    return found


async def _misdelivered(admin: "Admin", receiver: Receiver) -> list[str]:
    sealed = {row["key"]: row for row in await admin.fetch(SEALED)}
    found: list[str] = []
    first: list[str] = []
    for request in receiver.got:
        if request.key not in sealed:
            found.append(f"received and never sealed: {request.key}")
        elif request.body != sealed[request.key]["body"]:
            found.append(f"{request.key} arrived as {request.body!r}")
        if request.key not in first:
            first.append(request.key)
    confirmed = {key for key, row in sealed.items() if row["state"] == "delivered"}
    found += [f"confirmed and never received: {key}" for key in confirmed - set(first)]
    lanes: dict[object, list[int]] = defaultdict(list)
    for key in first:
        if key in sealed:
            row = sealed[key]
            lane, place = (row["conversation"], row["place"])
            if lane is None:
                lane, place = (row["turn"], row["position"])
            lanes[lane, row["destination"]].append(place)
    found += [f"out of order in {lane}: {got}" for lane, got in lanes.items() if got != sorted(got)]
    return found


def received_twice(receiver: Receiver) -> dict[str, int]:
    """How often each key arrived, of those that arrived more than once."""
    counts: dict[str, int] = defaultdict(int)
    for request in receiver.got:
        counts[request.key] += 1
    return {key: count for key, count in counts.items() if count > 1}
