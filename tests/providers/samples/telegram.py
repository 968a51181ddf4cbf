"""Telegram: messages, topics, files, buttons, and what a bot said for a business account."""

import json
from datetime import UTC, datetime

from app.domain.webhook import Request, Secrets
from tests.providers.cases import Case, Expected, Sample, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:
    del now
    token = secrets.active[0].decode()
    return with_headers(request, x_telegram_bot_api_secret_token=token)


def update(number: int, **fields: object) -> bytes:
    return json.dumps({"update_id": number, **fields}).encode()


ANN = {"id": 7, "is_bot": False, "first_name": "Ann"}
SAID = update(
    10000,
    message={
        "message_id": 1,
        "from": ANN,
        "chat": {"id": 7, "type": "private"},
        "date": 1796040000,
        "text": "a waffle maker?",
    },
)

CASES = (
    Case(
        sign=sign,
        secrets=Secrets((b"kind_of_Secret-1",)),
        other=Secrets((b"another_Secret-2",)),
        now=NOW,
        samples=(
            Sample(
                name="a-message",
                body=SAID,
                items=(
                    Expected(
                        keys=("10000",),
                        event="message",
                        conversation=("7",),
                        text="a waffle maker?",
                        sender="7",
                        body=SAID,
                        dated=NOW,
                    ),
                ),
            ),
            Sample(
                name="a-picture-in-a-topic",
                body=update(
                    10001,
                    message={
                        "message_id": 2,
                        "message_thread_id": 40,
                        "is_topic_message": True,
                        "from": ANN,
                        "chat": {"id": -100123, "type": "supergroup"},
                        "date": 1796040000,
                        "caption": "this one",
                        "photo": [{"file_id": "small"}, {"file_id": "large"}],
                    },
                ),
                items=(
                    Expected(
                        keys=("10001",),
                        event="message",
                        conversation=("-100123", "40"),
                        text="this one",
                        sender="7",
                        attachments=1,
                    ),
                ),
            ),
            Sample(
                name="a-button",
                body=update(
                    10002,
                    callback_query={
                        "id": "4382bfdwdsb323b2d9",
                        "from": ANN,
                        "message": {"message_id": 1, "chat": {"id": 7}, "date": 1500000000},
                        "data": "red",
                    },
                ),
                items=(
                    Expected(
                        keys=("10002",),
                        event="callback_query",
                        conversation=("7",),
                        text="red",
                        sender="7",
                    ),
                ),
            ),
            Sample(
                name="our-own-message-for-a-business",
                body=update(
                    10003,
                    business_message={
                        "message_id": 3,
                        "business_connection_id": "bc1",
                        "from": {"id": 99, "is_bot": False},
                        "sender_business_bot": {"id": 5, "is_bot": True},
                        "chat": {"id": 7, "type": "private"},
                        "date": 1796040000,
                        "text": "We have a red one.",
                    },
                ),
                items=(
                    Expected(
                        keys=("10003",),
                        event="business_message",
                        conversation=("7", "", "bc1"),
                        text="We have a red one.",
                        sender="99",
                        is_echo=True,
                    ),
                ),
            ),
        ),
    ),
)
