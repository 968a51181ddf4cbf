"""Teams: what mentions an outgoing webhook."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime

from app.domain.webhook import Reply, Request, Secrets
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
TOKEN = b"vqF0En+Z0ucuRTM/01o2GuhMH3hKKk/N2bOmlM31zaA="
THREAD = "19:abc@thread.skype;messageid=1796040000000"
TAKEN = Reply(200, b'{"type": "message", "text": "Your message was received."}', "application/json")


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:  # noqa: ARG001
    key = base64.b64decode(secrets.active[0])
    digest = hmac.new(key, request.body, hashlib.sha256).digest()
    return with_headers(request, authorization=f"HMAC {base64.b64encode(digest).decode()}")


SAID = json.dumps(
    {
        "type": "message",
        "id": "1796040000000",
        "timestamp": "2026-11-30T12:00:00.000Z",
        "serviceUrl": "https://smba.trafficmanager.net/amer/",
        "channelId": "msteams",
        "from": {"id": "29:1a", "name": "Ada", "aadObjectId": "ada-1"},
        "conversation": {"isGroup": True, "id": THREAD},
        "text": "<at>Waffles</at> a red one?",
        "attachments": [
            {"contentType": "text/html", "content": "<div>a red one?</div>"},
            {"contentType": "image/png", "contentUrl": "https://a.example/1.png", "name": "1.png"},
        ],
    }
).encode()

CASES = (
    Case(
        sign=sign,
        secrets=Secrets((TOKEN,)),
        other=Secrets((b"QgyNSToQjf4p6+YzDpjKks1/tXeJQ7FhVHqRwTnugVI=",)),
        now=NOW,
        samples=(
            Sample(
                name="a-mention",
                body=SAID,
                reply=TAKEN,
                items=(
                    Expected(
                        keys=(f"{THREAD}:1796040000000",),
                        event="message",
                        conversation=(THREAD,),
                        text="<at>Waffles</at> a red one?",
                        sender="ada-1",
                        attachments=1,
                        body=SAID,
                        dated=NOW,
                    ),
                ),
            ),
        ),
        vectors=(
            Vector(
                name="computed-elsewhere",
                source="the token of Microsoft's sample, and a body signed with it by hand",
                request=Request(
                    method="POST",
                    public_url=URL,
                    headers={
                        "content-type": "application/json",
                        "authorization": "HMAC J04ZsCYXVxPCo83YZnWB1GHS4lVYjDVX7iUSrRI9+oo=",
                    },
                    body=b'{"hello":"world"}',
                ),
                secrets=Secrets((TOKEN,)),
                now=NOW,
            ),
        ),
    ),
)
