"""Accepts as a provider would make them: signed webhooks, each an event of its own, as large as a plain accept."""

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from typing import Final

from tests.bench.http import body_of


def slack(name: str, text: str, *, secret: bytes) -> bytes:
    """An event of Slack: two keys, a view, and its conversation."""
    event = {
        "type": "message",
        "channel": name,
        "user": "U1",
        "text": text,
        "ts": "1796040000.000100",
    }
    envelope = {
        "team_id": "T1", "api_app_id": "A1", "event": event, "type": "event_callback", "event_id": name,
    }  # fmt: skip
    body = json.dumps(envelope).encode()
    at = str(int(time.time()))  # noqa: TID251 - as a provider's clock
    digest = hmac.new(secret, b"v0:" + at.encode() + b":" + body, hashlib.sha256).hexdigest()
    headers = f"X-Slack-Request-Timestamp: {at}\r\nX-Slack-Signature: v0={digest}\r\n"
    return _post("slack", headers, body)


def telegram(name: str, text: str, *, secret: bytes) -> bytes:
    """An update of Telegram: one key, and a secret instead of a signature."""
    number = int(hashlib.sha256(name.encode()).hexdigest()[:12], 16)
    chat = {"id": number, "type": "private"}
    message = {"message_id": 1, "date": int(time.time()), "chat": chat, "from": chat, "text": text}  # noqa: TID251
    body = json.dumps({"update_id": number, "message": message}).encode()
    return _post("telegram", f"X-Telegram-Bot-Api-Secret-Token: {secret.decode()}\r\n", body)


def _post(source: str, headers: str, body: bytes) -> bytes:
    head = (
        f"POST /v1/sources/{source} HTTP/1.1\r\nHost: bench\r\n"
        f"Content-Type: application/json\r\n{headers}Content-Length: "
    )
    return body_of(head.encode(), body)


PROVIDERS: Final[Mapping[str, Callable[..., bytes]]] = {"slack": slack, "telegram": telegram}
