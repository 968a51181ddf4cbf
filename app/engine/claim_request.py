"""Claims that may be repeated: a request id keeps what its first claim was given, for as long as that lease."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.errors import InvalidContent, Problem
from app.domain.model import ClaimRequest
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


def _names(requests: Sequence[ClaimRequest]) -> dict[str, object]:
    return {
        "principals": [request.principal for request in requests],
        "queues": [request.queue for request in requests],
        "agents": [request.agent for request in requests],
        "request_ids": [request.request_id for request in requests],
    }


async def known_requests(connection: "Link", requests: Sequence[ClaimRequest]) -> dict[int, UUID]:
    """Those that were answered before, by position: under which id their turns are found.

    Raises `InvalidContent` (`request_id_reused`) for one with other parameters.
    """
    rows = await SQL["find_requests"].rows(
        connection, positions=list(range(len(requests))), **_names(requests)
    )
    if any(row["parameters"] != requests[row["position"]].parameters for row in rows):
        raise InvalidContent(Problem("/request_id", "request_id_reused"))
    return {row["position"]: row["id"] for row in rows}


async def remember_requests(
    connection: "Link", answered: Sequence[tuple[UUID, ClaimRequest]]
) -> bool:
    """Keep each under its id; False if any was answered by somebody else meanwhile."""
    requests = [request for _, request in answered]
    rows = await SQL["remember_requests"].rows(
        connection,
        ids=[name for name, _ in answered],
        parameters=[request.parameters for request in requests],
        leases=[request.lease_seconds for request in requests],
        **_names(requests),
    )
    return len(rows) == len(answered)


async def forget_request(pool: "Pool", request: ClaimRequest) -> None:
    """Forget that a request was answered, where the answer came to nobody and nothing of it holds."""

    async def work(connection: "Link") -> None:
        await SQL["forget_request"].run(
            connection,
            principal=request.principal,
            queue=request.queue,
            agent=request.agent,
            request_id=request.request_id,
        )

    await transact(pool, work, explicit=False)


async def forget_requests(pool: "Pool", *, rows_max: int) -> int:
    """Drop up to `rows_max` claim requests whose lease is over; returns how many."""

    async def work(connection: "Link") -> int:
        return len(await SQL["forget_requests"].rows(connection, rows_max=rows_max))

    return await transact(pool, work, explicit=False)
