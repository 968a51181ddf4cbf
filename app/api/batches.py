"""Many inbound in one request: each judged as a call of its own would be, in the order in which they stand.

What is wrong with one is told of it alone. Order in the array is order in the lanes. The request is bounded as a
whole, and each payload as that of a single call is.
"""

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, cast

from starlette.requests import Request
from starlette.responses import Response

from app.api.admission import Admitted
from app.api.answers import json_answer
from app.api.arrivals import KEY, SHAPE, read_arrival
from app.api.calls import Api
from app.api.inbound import accepted_answer, note_accepted
from app.api.problems import Refusal, answer_error
from app.domain.errors import InvalidContent, Problem
from app.domain.json_text import AsSent, Items, Kind, RawJson, parse_envelope
from app.domain.model import Accepted, Arrival
from app.engine.accept import accept, recall
from app.engine.keys import Principal
from app.engine.transaction import Busy

# How long the batch waits for what somebody holds before its items go one by one, and how long those may take.
LOCK_WAIT_MS: Final = 500
SINGLES_SECONDS_MAX: Final = 10.0

_ITEM: Final = SHAPE | {"idempotency_key": Kind.VALUE}

Outcome = Accepted | Exception


@dataclass(frozen=True, slots=True)
class _Item:
    """One item that can be accepted: its place in the array, and what it asks for."""

    position: int
    arrival: Arrival


async def accept_batch(api: Api, request: Request, principal: Principal) -> Response:
    """Take many inbound. What is answered with a status of 2xx is committed."""
    limits = api.core.settings.limits
    body = await api.body(request, bytes_max=max(limits.body_bytes_max, limits.batch_bytes_max))
    shape = {"items": Items(_ITEM, limits.batch_max, apart=True)}
    given = parse_envelope(body, shape).get("items")
    if given is None:
        raise InvalidContent(Problem("/items", "required"))
    outcomes: dict[int, Outcome] = {}
    items: list[_Item] = []
    for n, values in enumerate(cast("Sequence[dict[str, object] | InvalidContent]", given)):
        try:
            items.append(_Item(n, _read(api, values, pointer=f"/items/{n}", principal=principal)))
        except (InvalidContent, Refusal) as error:
            outcomes[n] = error
    outcomes |= await _accept(api, items)
    return json_answer({"results": [_result(outcomes[n]) for n in range(len(outcomes))]})


def _read(
    api: Api, values: dict[str, object] | InvalidContent, *, pointer: str, principal: Principal
) -> Arrival:
    if isinstance(values, InvalidContent):
        raise values
    key = values.get("idempotency_key")
    if key is None:
        raise Refusal("idempotency_key_missing", detail="The item needs an idempotency_key.")
    if not isinstance(key, str) or KEY.fullmatch(key) is None:
        raise InvalidContent(Problem(f"{pointer}/idempotency_key", "idempotency_key_invalid"))
    bytes_max = api.core.settings.limits.body_bytes_max
    if sum(map(_length, values.values())) > bytes_max:
        raise Refusal("body_too_large", detail=f"An item has at most {bytes_max} bytes.")
    return read_arrival(api, values, key=key, principal=principal, pointer=pointer)


def _length(value: object) -> int:
    """What a field takes in the request, where that may be much."""
    match value:
        case RawJson():
            return len(value)
        case AsSent():
            return len(value.text)
        case str():
            return len(value)
        case _:
            return 0


async def _accept(api: Api, items: Sequence[_Item]) -> dict[int, Outcome]:
    """Accept what there is room for, in order; one outcome for each position."""
    outcomes: dict[int, Outcome] = {}
    admitted: list[Admitted] = []
    new = defaultdict[str, int](int)
    try:
        by_queue = defaultdict[str, list[_Item]](list)
        for item in items:
            by_queue[item.arrival.queue].append(item)
        for queue, group in by_queue.items():
            admission = await api.admission.admit(queue, len(group))
            admitted.append(admission)
            if admission.refusal is not None:
                outcomes |= await _beyond(api, group, admission.count, admission.refusal)
        wanted = [item for item in items if item.position not in outcomes]
        # What fails without an answer may have been committed.
        new.update((admission.queue, admission.count) for admission in admitted)
        for _, run in groupby(wanted, key=lambda item: item.arrival.may_join):
            outcomes |= await _accept_run(api, list(run))
        new.clear()
        for item in wanted:
            outcome = outcomes[item.position]
            new[item.arrival.queue] += not (
                isinstance(outcome, InvalidContent)
                or (isinstance(outcome, Accepted) and outcome.duplicate)
            )
    finally:
        for admission in admitted:
            api.admission.settle(admission, new=min(new[admission.queue], admission.count))
    for item in items:
        if isinstance(outcome := outcomes[item.position], Accepted):
            note_accepted(api, item.arrival, outcome)
    return outcomes


async def _beyond(
    api: Api, items: Sequence[_Item], count: int, refusal: Refusal
) -> dict[int, Outcome]:
    """What a queue without room for all of these answers at once: what is known, and who comes too late."""
    known = await recall(api.core.pool, [item.arrival for item in items])
    told = list(zip(items, known, strict=True))
    # What comes twice in one batch needs room once.
    fresh = dict.fromkeys(item.arrival.key for item, found in told if found is None)
    late = frozenset(list(fresh)[count:])
    outcomes: dict[int, Outcome] = {}
    for item, found in told:
        if found is not None:
            outcomes[item.position] = found
        elif item.arrival.key in late:
            outcomes[item.position] = refusal
    return outcomes


async def _accept_run(api: Api, items: Sequence[_Item]) -> dict[int, Outcome]:
    """Accept these together, or one by one where something is wrong with one of them."""
    positions = [item.position for item in items]
    try:
        accepted = await _call(api, items, lock_wait_ms=LOCK_WAIT_MS)
    except (InvalidContent, Busy):
        # Nothing was changed.
        pass
    else:
        return dict(zip(positions, accepted, strict=True))
    outcomes: dict[int, Outcome] = {}
    until = time.monotonic() + SINGLES_SECONDS_MAX
    for item in items:
        if time.monotonic() > until:
            outcomes[item.position] = Refusal("overloaded", headers={"Retry-After": "1"})
            continue
        try:
            (outcomes[item.position],) = await _call(api, [item], lock_wait_ms=None)
        except InvalidContent as invalid:
            at = f"/items/{item.position}"
            problems = (Problem(at + p.pointer, p.code, p.detail) for p in invalid.problems)
            outcomes[item.position] = InvalidContent(*problems)
        except Busy as error:
            outcomes[item.position] = error
    return outcomes


async def _call(api: Api, items: Sequence[_Item], *, lock_wait_ms: int | None) -> list[Accepted]:
    core = api.core
    return await accept(
        core.pool,
        [item.arrival for item in items],
        ids=core.ids,
        key_seconds=core.settings.keys.idempotency_seconds,
        lock_wait_ms=lock_wait_ms,
    )


def _result(outcome: Outcome) -> dict[str, object]:
    """What a call of its own would have answered: its status, and the members of its answer."""
    if isinstance(outcome, Accepted):
        try:
            status, fields = accepted_answer(outcome)
            return {"status": status} | fields
        except Refusal as refusal:
            outcome = refusal
    answer = answer_error(outcome)
    members: dict[str, object] = json.loads(bytes(answer.body))
    if retry_after := answer.headers.get("retry-after"):
        members["retry_after_seconds"] = int(retry_after)
    return members
