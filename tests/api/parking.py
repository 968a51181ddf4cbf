"""Parks and signals over HTTP, as agents and senders make them."""

from collections.abc import Mapping
from typing import Any

from tests.api.conftest import Answer, Service

HASH = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
Turn = Mapping[str, Any]


async def park(service: Service, turn: Turn, **fields: Any) -> Answer:
    """Park a claimed turn that waits for an answer."""
    body = {"lease_token": turn["lease_token"], "name": "answer", **fields}
    return await service.post(f"/v1/turns/{turn['id']}/park", body, scope="agent")


async def tell(
    service: Service, turn: Turn, name: str = "answer", *, scope: str = "accept", **fields: Any
) -> Answer:
    """Tell a turn something; the name stands in the path as it is given."""
    return await service.post(f"/v1/turns/{turn['id']}/signals/{name}", fields, scope=scope)


async def history(service: Service, queue: str = "default") -> list[dict[str, Any]]:
    """What the next claim says of what was before."""
    (turn,) = (await service.claim(queue=queue)).json["turns"]
    told: list[dict[str, Any]] = turn["history"]
    return told
