"""What one conversation at each provider looks like: what comes in, what is to go out, and what comes back of it.

Ids have the forms that the providers give them. Every secret holds the canary.
"""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from tests.channels.conformance.fakes import answer

CANARY = "canaryKEY7h2x"
FORM = "application/x-www-form-urlencoded"
TEXTS = ("We have a red one.", "Shall we send it?")

# A body as its provider writes it at this moment, in seconds.
Body = Callable[[int], bytes]


@dataclass(frozen=True, kw_only=True)
class Chat:
    """`changed` is replaced in `said` for a body that differs under the same key.

    `first` is what the provider says to its first request, and `good` to those that it takes. `check` is given those,
    with what the destination was given as a token. `echoes` are what comes back of what we said.
    """

    kind: str
    said: Body
    changed: tuple[bytes, bytes]
    destination: str
    first: Sequence[bytes]
    good: Sequence[bytes]
    check: Callable[[Sequence[Any]], None]
    receipts: Sequence[str]
    echoes: Sequence[Body]
    view: dict[str, str]
    source: str = ""
    token: str = f"{CANARY}-token"
    content_type: str = "application/json"


def as_json(make: Callable[[int], object]) -> Body:
    return lambda now: json.dumps(make(now)).encode()


# Slack.
TEAM, CHANNEL, ANN, BOT, APP = "T0123ABCD", "C0123ABCD", "U0123ANN1", "U0123BOT1", "A0123APP1"
THREAD = "1796040000.000100"


def slack_event(id_: str, now: int, **event: object) -> dict[str, object]:
    return {
        "team_id": TEAM,
        "api_app_id": APP,
        "event": {"type": "message", "channel": CHANNEL, **event},
        "type": "event_callback",
        "event_id": id_,
        "event_time": now,
        "authorizations": [{"team_id": TEAM, "user_id": BOT, "is_bot": True}],
    }


def slack_is_right(requests: Sequence[Any]) -> None:
    for one, text in zip(requests, TEXTS, strict=True):
        assert (one.method, one.path) == ("POST", "/api/chat.postMessage")
        assert one.headers["authorization"] == f"Bearer {CANARY}-token"
        assert one.json["metadata"].pop("event_payload")["key"]
        assert one.json | {"metadata": 0} == {
            "text": text, "channel": CHANNEL, "thread_ts": THREAD, "metadata": 0
        }  # fmt: skip


SLACK = Chat(
    kind="slack",
    said=as_json(lambda now: slack_event("Ev0123ABC1", now, user=ANN, text="a waffle maker?", ts=THREAD)),
    changed=(b"waffle", b"coffee"),
    view={"text": "a waffle maker?", "sender": ANN, "conversation": f"chat:{TEAM}/{CHANNEL}/{THREAD}"},
    destination='api_url = "http://127.0.0.1:{port}/api"',
    first=(
        answer(200, {"ok": False, "error": "ratelimited"}, Retry_After="1"),
        answer(429, {"ok": False, "error": "ratelimited"}, Retry_After="1"),
    ),
    good=[
        answer(200, {"ok": True, "channel": CHANNEL, "ts": f"179604000{n}.000200"}) for n in (1, 2)
    ],
    check=slack_is_right,
    receipts=[f"{CHANNEL}:179604000{n}.000200" for n in (1, 2)],
    echoes=[
        as_json(
            lambda now: slack_event(
                "Ev0123ABC2", now, user=BOT, bot_id="B0123BOT1", app_id=APP, text=TEXTS[0],
                ts="1796040001.000200", thread_ts=THREAD,
            )
        ),
        as_json(
            lambda now: slack_event(
                "Ev0123ABC3", now, bot_id="B0123BOT1", subtype="bot_message", text=TEXTS[1],
                ts="1796040002.000200", thread_ts=THREAD,
            )
        ),
    ],
)  # fmt: skip

# Telegram.
GROUP, TOPIC = -1001234567890, 40
PERSON = {"id": 7123456789, "is_bot": False, "first_name": "Ann"}


def telegram_is_right(requests: Sequence[Any]) -> None:
    for one, text in zip(requests, TEXTS, strict=True):
        assert (one.method, one.path) == ("POST", f"/bot123456789:{CANARY}-token/sendMessage")
        assert one.json == {"text": text, "chat_id": GROUP, "message_thread_id": TOPIC}


TELEGRAM = Chat(
    kind="telegram",
    said=as_json(
        lambda now: {
            "update_id": 987654321,
            "message": {
                "message_id": 1001,
                "message_thread_id": TOPIC,
                "is_topic_message": True,
                "from": PERSON,
                "chat": {"id": GROUP, "type": "supergroup", "is_forum": True},
                "date": now,
                "text": "a waffle maker?",
            },
        }
    ),
    changed=(b"waffle", b"coffee"),
    view={"text": "a waffle maker?", "sender": "7123456789", "conversation": f"chat:{GROUP}/{TOPIC}"},
    destination='api_url = "http://127.0.0.1:{port}"',
    token=f"123456789:{CANARY}-token",
    first=(
        answer(
            429,
            {
                "ok": False, "error_code": 429, "description": "Too Many Requests: retry after 1",
                "parameters": {"retry_after": 1},
            },
        ),
    ),
    good=[
        answer(200, {"ok": True, "result": {"message_id": n, "chat": {"id": GROUP}}})
        for n in (1002, 1003)
    ],
    check=telegram_is_right,
    receipts=[f"{GROUP}:{n}" for n in (1002, 1003)],
    # A bot is told of its own words only where it speaks for a business.
    echoes=[
        as_json(
            lambda now: {
                "update_id": 987654322,
                "business_message": {
                    "message_id": 1002, "business_connection_id": "bc1", "date": now,
                    "from": {"id": 99, "is_bot": False}, "text": TEXTS[0],
                    "sender_business_bot": {"id": 123456789, "is_bot": True},
                    "chat": {"id": PERSON["id"], "type": "private"},
                },
            }
        )
    ],
)  # fmt: skip

# WhatsApp.
NUMBER_ID, WA_ID = "106540352242922", "16505551234"


def whatsapp_told(field: str, **value: object) -> dict[str, object]:
    metadata = {"display_phone_number": "15550783881", "phone_number_id": NUMBER_ID}
    whole = {"messaging_product": "whatsapp", "metadata": metadata, **value}
    change = {"field": field, "value": whole}
    entry = {"id": "102290129340398", "changes": [change]}
    return {"object": "whatsapp_business_account", "entry": [entry]}


def whatsapp_is_right(requests: Sequence[Any]) -> None:
    for one, text in zip(requests, TEXTS, strict=True):
        assert (one.method, one.path) == ("POST", f"/v25.0/{NUMBER_ID}/messages")
        assert one.headers["authorization"] == f"Bearer {CANARY}-token"
        assert one.json["to"] == WA_ID
        assert (one.json["type"], one.json["text"]) == ("text", {"body": text})
        assert one.json["biz_opaque_callback_data"].startswith("msg_")


WHATSAPP = Chat(
    kind="whatsapp",
    said=as_json(
        lambda now: whatsapp_told(
            "messages",
            contacts=[{"profile": {"name": "Ann"}, "wa_id": WA_ID}],
            messages=[
                {
                    "from": WA_ID, "id": "wamid.HBgLMTY1MDU1NTEyMzQVAgASGBQzQQA=",
                    "timestamp": str(now), "type": "text", "text": {"body": "a waffle maker?"},
                }
            ],
        )
    ),
    changed=(b"waffle", b"coffee"),
    view={"text": "a waffle maker?", "sender": WA_ID, "conversation": f"chat:{NUMBER_ID}/{WA_ID}"},
    source='verify_tokens = ["file:FOLDER/verify"]\nfilter = { drop = ["status.*"] }',
    destination='api_url = "http://127.0.0.1:{port}/v25.0"',
    first=(
        answer(
            400,
            {"error": {"code": 130429, "message": "(#130429) Rate limit hit", "type": "OAuthException"}},
            Retry_After="1",
        ),
    ),
    good=[
        answer(200, {"messaging_product": "whatsapp", "messages": [{"id": f"wamid.OURS{n}="}]})
        for n in (1, 2)
    ],
    check=whatsapp_is_right,
    receipts=["wamid.OURS1=", "wamid.OURS2="],
    echoes=[
        as_json(
            lambda now: whatsapp_told(
                "smb_message_echoes",
                message_echoes=[
                    {
                        "from": "15550783881", "to": WA_ID, "id": "wamid.OURS1=",
                        "timestamp": str(now), "type": "text", "text": {"body": TEXTS[0]},
                    }
                ],
            )
        ),
        as_json(
            lambda now: whatsapp_told(
                "messages",
                statuses=[
                    {"id": "wamid.OURS1=", "status": "delivered", "timestamp": str(now), "recipient_id": WA_ID}
                ],
            )
        ),
    ],
)  # fmt: skip

# Twilio.
ACCOUNT, OURS, THEIRS = "AC" + "0123456789abcdef" * 2, "+15550199", "+15550100"
SIDS = [f"SM{n}{'0123456789abcdef' * 2}"[:34] for n in (1, 2)]


def twilio_told(sid: str, **fields: str) -> bytes:
    return urlencode({"AccountSid": ACCOUNT, "MessageSid": sid, **fields}).encode()


def twilio_is_right(requests: Sequence[Any]) -> None:
    login = base64.b64encode(f"{ACCOUNT}:{CANARY}-token".encode()).decode()
    for one, text in zip(requests, TEXTS, strict=True):
        assert (one.method, one.path) == ("POST", f"/2010-04-01/Accounts/{ACCOUNT}/Messages.json")
        assert one.headers["authorization"] == f"Basic {login}"
        assert one.form == {"To": THEIRS, "From": OURS, "Body": text}


TWILIO = Chat(
    kind="twilio",
    said=lambda _now: twilio_told(
        f"SM{'a' * 32}",
        SmsStatus="received",
        NumMedia="0",
        To=OURS,
        From=THEIRS,
        Body="a waffle maker?",
    ),
    content_type=FORM,
    changed=(b"waffle", b"coffee"),
    view={"text": "a waffle maker?", "sender": THEIRS, "conversation": f"chat:{OURS}/{THEIRS}"},
    source='filter = { drop = ["status.*"] }',
    destination=f'account_sid = "{ACCOUNT}"\napi_url = "http://127.0.0.1:{{port}}"',
    first=(
        answer(
            429, {"code": 20429, "message": "Too Many Requests", "status": 429}, Retry_After="1"
        ),
    ),
    good=[answer(201, {"sid": sid, "status": "queued"}) for sid in SIDS],
    check=twilio_is_right,
    receipts=SIDS,
    echoes=[
        lambda _now: twilio_told(SIDS[0], MessageStatus="delivered", From=OURS, To=THEIRS),
    ],
)
CHATS = (SLACK, TELEGRAM, WHATSAPP, TWILIO)
