"""What a message of Discord may say, how it carries our key, and how it is known again."""

import base64
import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from app.domain.content import Reading

TEXT_MAX: Final = 2000
ITEMS_MAX: Final = 10
STICKERS_MAX: Final = 3
NONCE_CHARACTERS: Final = 25

FIELDS: Final = frozenset(
    {"text", "content", "embeds", "components", "allowed_mentions", "tts", "flags", "poll"}
)
FIELDS_OF_BOTS: Final = FIELDS | {"message_reference", "sticker_ids"}
FIELDS_OF_WEBHOOKS: Final = FIELDS | {"username", "avatar_url", "thread_name"}

_EPOCH: Final = datetime(2015, 1, 1, tzinfo=UTC)
_TIME_SHIFT: Final = 22


def check_content(reading: Reading) -> None:
    """Note what is wrong with a message, whose text is its `content`, or `text` for those who know no Discord."""
    text = reading.text("text", most=TEXT_MAX)
    content = reading.text("content", most=TEXT_MAX)
    rich = [bool(reading.items(name, most=ITEMS_MAX)) for name in ("embeds", "components")]
    rich.append(bool(reading.items("sticker_ids", most=STICKERS_MAX)))
    for name in ("allowed_mentions", "message_reference", "poll"):
        if not isinstance(reading.content.get(name, {}), dict):
            reading.refuse(name, "wrong_type", "an object")
    if reading.problems:
        return
    if text and content:
        reading.refuse("text", "field_not_allowed", "content or text, not both")
    if not (text or content or any(rich) or reading.content.get("poll")):
        reading.refuse("text", "text_empty")


def spell_message(content: Mapping[str, object]) -> dict[str, object]:
    """The content as Discord wants it. Nobody but a person is called, unless the agent says so: no @everyone."""
    said = {"allowed_mentions": {"parse": ["users"]}, **content}
    if "text" in said:
        said["content"] = said.pop("text")
    return said


def nonce_of(key: str) -> str:
    """Our key in the 25 characters that a nonce may have."""
    return hashlib.sha256(key.encode()).hexdigest()[:NONCE_CHARACTERS]


def letters_of(text: str) -> str:
    """What is left of a text whatever Discord takes out of it."""
    return "".join(one for one in text if one.isalnum())


def bot_of(token: str) -> str | None:
    """The id of the bot that a token is of, with which it begins in base64; None for one of another form."""
    head = token.partition(".")[0]
    try:
        id_ = base64.b64decode(head + "=" * (-len(head) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
    return id_.decode() if id_.isdigit() else None


def first_id_at(moment: datetime) -> int:
    """The least id that was given out at a moment."""
    return ((moment - _EPOCH) // timedelta(milliseconds=1)) << _TIME_SHIFT
