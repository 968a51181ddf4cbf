"""WhatsApp Cloud API: batches of messages and statuses, echoes, hidden numbers, groups, and the handshake."""

import hashlib
import json
from dataclasses import replace

from app.domain.webhook import Reply, Secrets
from tests.providers.cases import URL, Case, Expected, Sample
from tests.providers.meta import NOW, VECTOR, sign

TIME = "1796040000"
ANN = "15550100"


def change(field: str, **value: object) -> dict[str, object]:
    metadata = {"display_phone_number": "15550199", "phone_number_id": "N1"}
    return {
        "field": field,
        "value": {"messaging_product": "whatsapp", "metadata": metadata, **value},
    }


def posted(*changes: dict[str, object], **entry: object) -> bytes:
    whole = {
        "object": "whatsapp_business_account",
        "entry": [{"id": "W1", "changes": list(changes), **entry}],
    }
    return json.dumps(whole, ensure_ascii=True).encode()


def said(id_: str, **fields: object) -> dict[str, object]:
    return {"from": ANN, "id": id_, "timestamp": TIME, **fields}


TEXT = said("wamid.1", type="text", text={"body": "a waffle maker?"})
IMAGE = said(
    "wamid.2", type="image", image={"id": "M1", "mime_type": "image/jpeg", "caption": "this one"}
)
SENT = {"id": "wamid.9", "status": "sent", "timestamp": TIME, "recipient_id": ANN}
DELIVERED = {**SENT, "status": "delivered"}
FAILED = {
    **SENT,
    "status": "failed",
    "errors": [{"code": 131047, "title": "Re-engagement message"}],
}
REVIEWED = posted(
    {"field": "message_template_status_update", "value": {"event": "APPROVED"}}, time=1796040000
)
REVIEWED_KEY = hashlib.sha256(
    b'W1\n1796040000\n{"field": "message_template_status_update", "value": {"event": "APPROVED"}}'
).hexdigest()
HANDSHAKE = f"{URL}?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=meat%20y"

CASES = (
    Case(
        sign=sign,
        secrets=Secrets((b"app-secret",), {"verify_tokens": (b"meat y", b"old")}),
        other=Secrets((b"another-app-secret",)),
        now=NOW,
        options={"verify_tokens": ["env:WHATSAPP_VERIFY_TOKEN", "env:WHATSAPP_OLD_VERIFY_TOKEN"]},
        samples=(
            Sample(
                name="messages-and-statuses-in-one-request",
                body=posted(
                    change("messages", messages=[TEXT, IMAGE], contacts=[{"wa_id": ANN}]),
                    change("messages", statuses=[SENT, DELIVERED, FAILED]),
                ),
                items=(
                    Expected(
                        keys=("wamid.1",),
                        event="message.text",
                        conversation=("N1", ANN),
                        text="a waffle maker?",
                        sender=ANN,
                        body=json.dumps(TEXT).encode(),
                        dated=NOW,
                    ),
                    Expected(
                        keys=("wamid.2",),
                        event="message.image",
                        conversation=("N1", ANN),
                        text="this one",
                        sender=ANN,
                        attachments=1,
                        body=json.dumps(IMAGE).encode(),
                    ),
                    Expected(
                        keys=(f"wamid.9:sent:{TIME}",),
                        event="status.sent",
                        conversation=("N1", ANN),
                        sender=ANN,
                        body=json.dumps(SENT).encode(),
                    ),
                    Expected(
                        keys=(f"wamid.9:delivered:{TIME}",),
                        event="status.delivered",
                        conversation=("N1", ANN),
                        sender=ANN,
                        dated=NOW,
                    ),
                    Expected(
                        keys=(f"wamid.9:failed:{TIME}",),
                        event="status.failed",
                        conversation=("N1", ANN),
                        text="Re-engagement message",
                        sender=ANN,
                    ),
                ),
            ),
            Sample(
                name="from-somebody-whose-number-is-hidden",
                body=posted(
                    change(
                        "messages",
                        messages=[
                            {
                                **said("wamid.3", type="interactive"),
                                "from": "",
                                "from_user_id": "US.13491208655302741918",
                                "interactive": {
                                    "button_reply": {"id": "red", "title": "The red one"}
                                },
                            }
                        ],
                    )
                ),
                items=(
                    Expected(
                        keys=("wamid.3",),
                        event="message.interactive",
                        conversation=("N1", "US.13491208655302741918"),
                        text="The red one",
                        sender="US.13491208655302741918",
                    ),
                ),
            ),
            Sample(
                name="in-a-group",
                body=posted(
                    change(
                        "messages",
                        messages=[
                            said(
                                "wamid.4",
                                type="text",
                                text={"body": "hi \U0001f600"},
                                group_id="G1",
                            )
                        ],
                    )
                ),
                items=(
                    Expected(
                        keys=("wamid.4",),
                        event="message.text",
                        conversation=("N1", "G1"),
                        text="hi \U0001f600",
                        sender=ANN,
                    ),
                ),
            ),
            Sample(
                name="what-a-person-said-for-us-in-the-app",
                body=posted(
                    change(
                        "smb_message_echoes",
                        message_echoes=[
                            {
                                "from": "15550199",
                                "to": ANN,
                                "id": "wamid.5",
                                "timestamp": TIME,
                                "type": "text",
                                "text": {"body": "We have a red one."},
                            }
                        ],
                    )
                ),
                items=(
                    Expected(
                        keys=("wamid.5",),
                        event="echo.text",
                        conversation=("N1", ANN),
                        text="We have a red one.",
                        sender="15550199",
                        is_echo=True,
                    ),
                ),
            ),
            Sample(
                name="something-else",
                body=REVIEWED,
                items=(
                    Expected(
                        keys=(f"sha256:{REVIEWED_KEY}",), event="message_template_status_update"
                    ),
                ),
            ),
            Sample(name="nothing", body=posted(), ignored={"empty": 1}),
            Sample(
                name="the-handshake",
                body=b"",
                method="GET",
                url=HANDSHAKE,
                reply=Reply(200, b"1158201444", "text/plain; charset=utf-8"),
            ),
        ),
        vectors=(replace(VECTOR, options={"verify_tokens": ["env:WHATSAPP_VERIFY_TOKEN"]}),),
    ),
)
