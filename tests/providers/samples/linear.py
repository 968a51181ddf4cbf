"""Linear: issues, comments, an agent's session, and what our own actor did."""

import hashlib
import hmac
import json
from datetime import UTC, datetime

from app.domain.webhook import Request, Secrets
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
ID = "234d1a4e-b617-4388-90fe-adc3633d6b72"
HEADERS = {"linear-delivery": ID}


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:
    del now
    digest = hmac.new(secrets.active[0], request.body, hashlib.sha256).hexdigest()
    return with_headers(request, linear_signature=digest)


def told(type_: str, action: str, *, actor: str = "U1", **fields: object) -> dict[str, object]:
    return {
        "action": action,
        "type": type_,
        "actor": {"id": actor, "type": "user", "name": "Ann"},
        "organizationId": "O1",
        "createdAt": "2026-11-30T12:00:00.000Z",
        "webhookTimestamp": int(NOW.timestamp() * 1000),
        "webhookId": "000042e3-d123-4980-b49f-8e140eef9329",
        **fields,
    }


def keys(one: dict[str, object]) -> tuple[str, str]:
    rest = json.dumps({**one, "webhookTimestamp": None}, sort_keys=True).encode()
    return ID, f"sha256:{hashlib.sha256(rest).hexdigest()}"


def sent(
    name: str,
    one: dict[str, object],
    issue: str,
    text: str,
    *,
    indent: int | None = None,
    raw: bool = False,
    sender: str = "U1",
    is_echo: bool = False,
) -> Sample:
    """A request with the id of its delivery, and what is to be read of it; with its bytes if they are `raw`."""
    body = json.dumps(one, indent=indent).encode()
    expected = Expected(
        keys=keys(one),
        event=f"{one['type']}.{one['action']}",
        conversation=(issue,),
        text=text,
        sender=sender,
        body=body if raw else None,
        is_echo=is_echo,
    )
    return Sample(name=name, body=body, headers=HEADERS, items=(expected,))


ISSUE = told("Issue", "create", data={"id": "I1", "title": "Waffles", "description": "Any?"})
COMMENT = told("Comment", "create", data={"id": "C1", "body": "a waffle maker?", "issueId": "I1"})
OWN = told("Comment", "create", actor="APP", data={"id": "C2", "body": "We have.", "issueId": "I1"})
SESSION = told(
    "AgentSessionEvent",
    "prompted",
    agentSession={"id": "S1", "issue": {"id": "I1", "title": "Waffles"}},
    agentActivity={"content": {"type": "prompt", "body": "and a red one?"}},
)
PROJECT = told("Project", "update", data={"id": "P1"})

CASES = (
    Case(
        sign=sign,
        secrets=Secrets((b"lin_wh_secret",)),
        other=Secrets((b"lin_wh_another",)),
        now=NOW,
        options={"own_actors": ["APP"]},
        samples=(
            sent("a-comment", COMMENT, "I1", "a waffle maker?", indent=1, raw=True),
            sent("an-issue", ISSUE, "I1", "Any?"),
            sent("an-agent-is-asked", SESSION, "S1", "and a red one?"),
            sent("our-own-comment", OWN, "I1", "We have.", sender="APP", is_echo=True),
            Sample(
                name="without-the-id-of-a-delivery",
                body=json.dumps(PROJECT).encode(),
                items=(Expected(keys=keys(PROJECT)[1:], event="Project.update", sender="U1"),),
            ),
        ),
        vectors=(
            Vector(
                name="computed",
                source="no published one: computed from the documented scheme",
                request=Request(
                    method="POST",
                    public_url=URL,
                    headers={
                        "linear-signature": "84cc33df716ed0b0598f07437c94069ace3730358778a592bd6bbd1423d111f3"
                    },
                    body=b'{"hello":"world"}',
                ),
                secrets=Secrets((b"test-secret",)),
                now=NOW,
            ),
        ),
    ),
)
