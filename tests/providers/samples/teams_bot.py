"""The Bot Framework: messages of a thread, an edit, what is invoked, a greeting of our own."""

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from app.domain.bearer_token import TokenKey
from app.domain.webhook import Keys, Reply, Request, Secrets
from tests.providers.cases import Case, Expected, Sample, with_headers
from tests.providers.signing_keys import rsa_key

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
APP = "9a5f0b9e-0000-4000-8000-000000000000"
SERVICE = "https://smba.trafficmanager.net/amer/"
THREAD = "19:abc@thread.tacv2;messageid=1796040000000"


def told(value: object) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


def token(now: datetime, *, kid: str = "k1", claims: Mapping[str, object] | None = None) -> str:
    """A token as the connector makes it."""
    issued = int(now.timestamp())
    given = {
        "serviceurl": SERVICE,
        "nbf": issued,
        "exp": issued + 3600,
        "iss": "https://api.botframework.com",
        "aud": APP,
        **(claims or {}),
    }
    signed = told({"alg": "RS256", "kid": kid, "typ": "JWT"}) + b"." + told(given)
    signature = rsa_key(kid).sign(signed, PKCS1v15(), SHA256())
    return (signed + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:  # noqa: ARG001
    return with_headers(request, authorization=f"Bearer {token(now)}")


def led_astray(request: Request) -> Request:
    body = request.body.replace(b"smba.trafficmanager.net", b"smba.trafficmanager.nex")
    return replace(request, body=body)


def activity(type_: str, id_: str, **more: object) -> bytes:
    given = {
        "type": type_,
        "id": id_,
        "timestamp": "2026-11-30T12:00:00.000Z",
        "serviceUrl": SERVICE,
        "channelId": "msteams",
        "from": {"id": "29:1a", "name": "Ada", "aadObjectId": "ada-1"},
        "conversation": {"conversationType": "channel", "id": THREAD, "tenantId": "t1"},
        "recipient": {"id": f"28:{APP}", "name": "Waffles"},
        **more,
    }
    return json.dumps(given).encode()


SAID = activity("message", "1796040000001", text="a red one?")
EDITED = activity(
    "messageUpdate", "1796040000001", text="a blue one?", channelData={"eventType": "editMessage"}
)
PRESSED = activity("invoke", "f:1", name="adaptiveCard/action", value={"action": {}})
OURS = activity("message", "1796040000002", text="We have one.", **{"from": {"id": f"28:{APP}"}})
FACTS = {"service_url": SERVICE, "bot": f"28:{APP}", "user": "29:1a"}


def expected(key: str, event: str, **more: object) -> Expected:
    given: dict[str, object] = {"sender": "ada-1", "reply": FACTS, **more}
    return Expected(keys=(key,), event=event, conversation=(THREAD,), dated=NOW, **given)  # type: ignore[arg-type]


CASES = (
    Case(
        sign=sign,
        secrets=Secrets(()),
        other=Secrets(()),
        now=NOW,
        options={"app_id": APP},
        keys=Keys(
            {
                "k1": TokenKey(rsa_key("k1").public_key(), frozenset({"msteams", "webchat"})),
                "k2": TokenKey(rsa_key("k2").public_key(), frozenset({"skype"})),
            }
        ),
        tampered={"serviceUrl": led_astray},
        samples=(
            Sample(
                name="a-message",
                body=SAID,
                items=(
                    expected(
                        f"{THREAD}:1796040000001",
                        "message",
                        text="a red one?",
                        body=SAID,
                        reply={**FACTS, "activity_id": "1796040000001"},
                    ),
                ),
            ),
            Sample(
                name="the-same-message-edited",
                body=EDITED,
                items=(
                    expected(
                        f"messageUpdate:{THREAD}:1796040000001:2026-11-30T12:00:00.000Z",
                        "messageUpdate.editMessage",
                        text="a blue one?",
                    ),
                ),
            ),
            Sample(
                name="what-is-invoked",
                body=PRESSED,
                reply=Reply(200, b"{}", "application/json"),
                items=(
                    expected(
                        f"invoke:{THREAD}:f:1:2026-11-30T12:00:00.000Z",
                        "invoke.adaptiveCard/action",
                    ),
                ),
            ),
            Sample(
                name="what-we-said",
                body=OURS,
                items=(
                    expected(
                        f"{THREAD}:1796040000002",
                        "message",
                        text="We have one.",
                        sender=f"28:{APP}",
                        is_echo=True,
                        reply={
                            **FACTS,
                            "activity_id": "1796040000002",
                            "user": f"28:{APP}",
                        },
                    ),
                ),
            ),
        ),
    ),
)
