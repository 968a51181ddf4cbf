"""A set that waits, as the page shows it, and what is done with it."""

import base64
from typing import Any

from tests.api.conftest import Service
from tests.console.browser import Tab
from tests.console.conftest import held

NOTE = "Over the limit of 100 €"
TEXT = "Dear Ada,\n\nyour money is on its way."
# Numbers that no reader of JSON in a browser keeps as they are.
REFUND = b'{"amount":120.00,"order":12345678901234567890,"why":"broken"}'
MESSAGES: list[dict[str, Any]] = [
    {
        "destination": "mail",
        "to": "ada@example.org",
        "content_type": "text/plain; charset=utf-8",
        "payload_base64": base64.b64encode(TEXT.encode()).decode(),
    },
    {
        "destination": "loopback",
        "headers": {"x-tag": "refund"},
        "delay_seconds": 2,
        "content_type": "application/json",
        "payload_base64": base64.b64encode(REFUND).decode(),
    },
]
FOLLOW_UPS = [{"payload": {"check": "has it arrived?"}, "delay_seconds": 259_200, "key": "check-1"}]


async def waiting(service: Service, **fields: Any) -> dict[str, Any]:
    return await held(
        service, MESSAGES, **{"hold": {"note": NOTE}, "follow_ups": FOLLOW_UPS, **fields}
    )


async def confirm(tab: Tab, button: str) -> None:
    await tab.click(button)
    await tab.until("document.querySelector('#sure').open")
    await tab.click("#sure-yes")
    await tab.until("!document.querySelector('#sure').open")


async def turn_of(service: Service, sealed: dict[str, Any]) -> dict[str, Any]:
    turn: dict[str, Any] = (await service.get(f"/v1/turns/{sealed['turn']}")).json
    return turn


async def bodies_of(service: Service, sealed: dict[str, Any]) -> list[bytes]:
    answer = await service.get(f"/v1/turns/{sealed['turn']}/set")
    return [base64.b64decode(one["payload_base64"]) for one in answer.json["messages"]]


async def events_of(service: Service, sealed: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = (await service.get(f"/v1/turns/{sealed['turn']}/events")).json[
        "items"
    ]
    return events


async def decide(service: Service, sealed: dict[str, Any], decision: str, **fields: Any) -> None:
    body = {"decision": decision, "payload_hash": sealed["payload_hash"], "by": "Grace", **fields}
    path = f"/v1/turns/{sealed['turn']}/decision"
    answer = await service.post(path, body, scope="approve")
    assert answer.status == 200, answer.body
