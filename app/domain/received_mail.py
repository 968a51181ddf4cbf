"""A mail that was received: its thread, and whom an answer goes to, if anybody at all.

Anybody can write whatever he likes into a mail: what has not the form that it should have counts as not there.
"""

import codecs
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from app.domain.mail import REFERENCES_MAX, is_address, is_message_id
from app.domain.webhook import Capability

ANSWER_WITHIN: Final = timedelta(days=30)
SUBJECT_CHARACTERS_MAX: Final = 500
HEADER_CHARACTERS_MAX: Final = 20_000
ADDRESSES_CHARACTERS_MAX: Final = 2000
HEAD_BYTES_MAX: Final = 256 << 10

_IDS: Final = re.compile(r"<[^<>\s]{1,250}>")
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*+"')
_ANGLED: Final = re.compile(r"<([^<>]{1,254})>")
_FOLD: Final = re.compile(r"\r?\n(?=[ \t])")
_SPACES: Final = re.compile(r"[\x00-\x20\x7f]+")
_BULK: Final = frozenset({"bulk", "list", "junk"})
# Character sets that are read in one pass; anything else is taken for UTF-8.
_CHARSET: Final = re.compile(
    r"(?:utf-?8|us-ascii|ascii|latin-?1|iso-?8859-\d{1,2}|windows-\d{3,4}|cp\d{3,4}|koi8-[ru]"
    r"|gb2312|gbk|gb18030|big5|shift_jis|euc-(?:jp|kr)|iso-2022-(?:jp|kr))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMail:
    """What a provider tells of a mail.

    `headers` are by their names in lower case, the first of each. `return_path` is the sender of the envelope: "" where
    it was null, None where nobody says.
    """

    mailbox: str
    sender: str
    subject: str
    headers: Mapping[str, str] = field(repr=False)
    return_path: str | None = None

    @property
    def message_id(self) -> str:
        """Its Message-ID in angle brackets; "" where it has none."""
        return next(iter(_ids(self.headers.get("message-id", ""))), "")

    @property
    def references(self) -> list[str]:
        """The Message-IDs of the thread before it, the oldest first: the first one and the last ones of many."""
        found = (
            _ids(self.headers.get("references", ""))
            or _ids(self.headers.get("in-reply-to", ""))[:1]
        )
        return [*found[:1], *found[1:][-(REFERENCES_MAX - 1) :]]

    @property
    def conversation(self) -> tuple[str, ...]:
        """The mailbox that received it, and the Message-ID of its thread's root; empty where there is none."""
        root = next(iter((*self.references, self.message_id)), "")
        return (address_of(self.mailbox).lower(), root.strip("<>")) if root else ()

    @property
    def may_be_answered(self) -> bool:
        """Whether a person or a program waits for an answer: never where machines would answer each other."""
        told = {name: value.strip().lower() for name, value in self.headers.items()}
        return not (
            told.get("auto-submitted", "no").partition(";")[0].strip() != "no"
            or told.get("precedence", "") in _BULK
            or "list-id" in told
            or any(one in told.get("x-auto-response-suppress", "") for one in ("all", "autoreply"))
            or "<>" in (self.return_path, told.get("return-path"))
            or self.return_path == ""
        )

    def reply(self, now: datetime) -> Capability | None:
        """Leave to answer it; None where nobody is to be answered."""
        to = address_of(self.headers.get("reply-to", "")) or address_of(self.sender)
        if not to or to.lower() == address_of(self.mailbox).lower() or not self.may_be_answered:
            return None
        facts = {
            "to": to,
            "message_id": self.message_id,
            "references": " ".join(self.references),
            "subject": _SPACES.sub(" ", self.subject[:SUBJECT_CHARACTERS_MAX]).strip(),
        }
        facts = {name: value for name, value in facts.items() if value}
        return Capability(secrets={}, facts=facts, expires_at=now + ANSWER_WITHIN)

    def is_from(self, addresses: Iterable[str]) -> bool:
        """Whether its sender is one of these."""
        return address_of(self.sender).lower() in {one.lower() for one in addresses}


def address_of(text: str) -> str:
    """The first plain address in a header such as From; "" where there is none."""
    told = _QUOTED.sub("", text[:ADDRESSES_CHARACTERS_MAX])
    angled = _ANGLED.search(told)
    found = (angled[1] if angled else told.partition(",")[0]).strip()
    return found if is_address(found) else ""


def headers_of(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers by their names in lower case, the first of each."""
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name.strip().lower(), value[:HEADER_CHARACTERS_MAX])
    return found


def read_headers(block: bytes) -> dict[str, str]:
    """The headers in front of a mail, or all that a provider gives of them, unfolded."""
    first = block[:HEAD_BYTES_MAX]
    head = re.split(rb"\r?\n\r?\n", first, maxsplit=1)[0].decode("utf-8", "replace")
    lines = (line.partition(":") for line in _FOLD.sub("", head).splitlines())
    return headers_of((name, value.strip()) for name, colon, value in lines if colon)


def text_in(value: bytes, charset: str) -> str:
    """Bytes as text in the character set that was told; what does not fit is replaced."""
    if _CHARSET.fullmatch(charset):
        try:
            return codecs.decode(value, charset, "replace")
        except LookupError:
            pass
    return value.decode("utf-8", "replace")


def fingerprint(fields: Iterable[tuple[bytes, bytes]], *, without: Iterable[str] = ()) -> bytes:
    """What two deliveries of a form are compared by: its fields, however they were laid out."""
    left_out = {name.encode() for name in without}
    digest = hashlib.sha256()
    for name, value in fields:
        if name not in left_out:
            digest.update(b"%d:%b%d:" % (len(name), name, len(value)))
            digest.update(value)
    return digest.digest()


def _ids(text: str) -> list[str]:
    return [one for one in _IDS.findall(text) if is_message_id(one)]
