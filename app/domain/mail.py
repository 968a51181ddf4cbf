"""A mail as bytes: the same for the same message, whenever and wherever it is made.

Header lines are made of what was checked here alone: no value can begin another header.
"""

import base64
import hashlib
import quopri
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from typing import Final

ADDRESS_CHARACTERS_MAX: Final = 254
REFERENCES_MAX: Final = 20

_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
)
_MESSAGE_ID: Final = re.compile(r"<[!-;=?-~]{1,250}>")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_PLAIN: Final = re.compile(r"[ -~]{0,70}")
# What a line would not keep as it is; and a name, in which more signs have a meaning.
_FOLDED: Final = re.compile(r"=\?|^ | $|  ")
_MEANS_MORE: Final = re.compile(r"""[()<>@,;:\\".\[\]]|=\?|^ | $|  """)
_WORD_BYTES: Final = 42


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """What a mail is made of. `parents` are the Message-IDs of the thread before it, the oldest first."""

    message_id: str
    sender: str
    sender_name: str | None
    recipient: str
    subject: str
    text: str
    html: str | None
    parents: Sequence[str]
    date: datetime


def is_address(text: str) -> bool:
    """Whether a text is one plain address, in ASCII and without a name."""
    return len(text) <= ADDRESS_CHARACTERS_MAX and _ADDRESS.fullmatch(text) is not None


def is_message_id(text: object) -> bool:
    """Whether a value is a Message-ID, in its angle brackets."""
    return isinstance(text, str) and _MESSAGE_ID.fullmatch(text) is not None


def is_one_line(text: str) -> bool:
    """Whether a text may stand in a header: one line of whole characters."""
    return _CONTROL.search(text) is None


def build_mail(mail: Mail) -> bytes:
    """The mail, in ASCII lines that end in CRLF."""
    sender = f"<{mail.sender}>" if mail.sender_name else mail.sender
    headers = [
        ("Date", format_datetime(mail.date.replace(microsecond=0))),
        ("From", f"{_words(mail.sender_name)} {sender}" if mail.sender_name else sender),
        ("To", mail.recipient),
        ("Subject", _words(mail.subject, kept_not=_FOLDED)),
        ("Message-ID", mail.message_id),
    ]
    if mail.parents:
        headers.append(("In-Reply-To", mail.parents[-1]))
        headers.append(("References", "\r\n ".join(mail.parents)))
    # Whatever answers mail by itself leaves this one alone, and ours leaves others alone.
    headers.append(("Auto-Submitted", "auto-replied" if mail.parents else "auto-generated"))
    headers += [("X-Auto-Response-Suppress", "All"), ("MIME-Version", "1.0")]
    if mail.html is None:
        return _block(headers, "plain", mail.text)
    boundary = "=_" + hashlib.sha256(mail.message_id.encode()).hexdigest()[:32]
    headers.append(("Content-Type", f'multipart/alternative; boundary="{boundary}"'))
    mark = f"--{boundary}".encode()
    parts = [_block([], "plain", mail.text), _block([], "html", mail.html)]
    return _lines(headers) + b"".join(mark + b"\r\n" + part for part in parts) + mark + b"--\r\n"


def _block(headers: Sequence[tuple[str, str]], kind: str, text: str) -> bytes:
    told = [
        ("Content-Type", f"text/{kind}; charset=utf-8"),
        ("Content-Transfer-Encoding", "quoted-printable"),
    ]
    lines = text.replace("\r\n", "\n").replace("\r", "\n").encode()
    encoded = quopri.encodestring(lines).replace(b"\n", b"\r\n")
    end = b"" if encoded.endswith(b"\r\n") else b"\r\n"
    return _lines([*headers, *told]) + encoded + end


def _lines(headers: Sequence[tuple[str, str]]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers).encode("ascii") + b"\r\n"


def _words(text: str, *, kept_not: re.Pattern[str] = _MEANS_MORE) -> str:
    """A text as a header may hold it: as it is, or in encoded words, each of whole characters."""
    if _PLAIN.fullmatch(text) and not kept_not.search(text):
        return text
    words, word = [], b""
    for character in text:
        piece = character.encode()
        if len(word) + len(piece) > _WORD_BYTES:
            words.append(word)
            word = b""
        word += piece
    return "\r\n ".join(f"=?utf-8?B?{base64.b64encode(one).decode()}?=" for one in [*words, word])
