"""Answers read from the bytes of a connection, however they are cut: a complete header block is known whatever follows
it, and nothing behind an answer is taken for a part of it.

The parser is llhttp, as lenient as clients commonly are and no more: a bare line feed ends a line, and what says how
long an answer is must not be in doubt.
"""

from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from app.wire.exchange import Answered

ANSWER_HEAD_BYTES_MAX: Final = 65_536
ANSWER_LINE_BYTES_MAX: Final = 8190
ANSWER_HEADERS_MAX: Final = 128

# Beside the fields of a header block are what separates them, and what was said before it.
_RAW_BYTES_MAX: Final = 2 * ANSWER_HEAD_BYTES_MAX
_FINAL_STATUS_MIN: Final = 200
_INFORMATIONAL_MIN: Final = 100
_SWITCHING: Final = 101
# A chunk may be of one byte and takes six; what takes many times more has no interest in being read.
_BYTES_FOR_ONE: Final = 16


class _Refuse(Exception):
    """Ends the parser's work from within."""


class AnswerReader:
    """The answers of one connection, one after another: `begin` each, and `feed` it until that says that it has ended.

    The methods `on_...` are called by the parser.
    """

    __slots__ = (
        "_after",
        "_excerpt",
        "_excerpt_bytes_max",
        "_fields",
        "_head_bytes",
        "_headers",
        "_is_whole",
        "_left",
        "_parser",
        "_status",
        "_until_close",
        "can_go_on",
    )

    def __init__(self) -> None:
        # Whether the connection may be used for another request, once an answer has ended.
        self.can_go_on = False
        self._parser = HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self.begin(excerpt_bytes_max=0)

    def begin(self, *, excerpt_bytes_max: int) -> None:
        """Expect an answer, of whose body so many bytes are wanted."""
        self.can_go_on = False
        self._excerpt_bytes_max = excerpt_bytes_max
        self._left = _RAW_BYTES_MAX
        self._status: int | None = None
        self._headers: dict[str, tuple[str, ...]] = {}
        self._fields = self._head_bytes = 0
        self._excerpt = bytearray()
        self._until_close = False
        self._is_whole = False

    def feed(self, data: bytes) -> bool:
        """Take in what came; True when nothing more is wanted of this answer, good or bad."""
        self._left -= len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.can_go_on = False
            return True
        return self._is_whole or self._left < 0 or len(self._excerpt) > self._excerpt_bytes_max

    def feed_eof(self) -> None:
        """The other side has closed: an answer without a length ends with that."""
        if self._until_close and not self._is_whole:
            self._is_whole = True

    def answered(self) -> Answered | None:
        """What is known of the answer; None as long as its header block is not complete."""
        if self._status is None:
            return None
        excerpt, most = bytes(self._excerpt), self._excerpt_bytes_max
        is_all = len(excerpt) <= most
        return Answered(self._status, self._headers, excerpt[:most], self._is_whole and is_all)

    def on_message_begin(self) -> None:
        """An answer begins, or one more that nobody asked for."""
        if self._is_whole:
            raise _Refuse
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of a header block, or of a trailer, which only counts."""
        size = len(name) + len(value)
        self._fields += 1
        self._head_bytes += size
        if self._fields > ANSWER_HEADERS_MAX or self._head_bytes > ANSWER_HEAD_BYTES_MAX:
            raise _Refuse
        if size > ANSWER_LINE_BYTES_MAX or b"\0" in value:
            raise _Refuse
        if self._status is None:
            known = name.decode("latin-1").lower()
            text = value.rstrip(b" \t").decode("utf-8", "surrogateescape")
            headers = self._headers
            headers[known] = (*headers[known], text) if known in headers else (text,)

    def on_headers_complete(self) -> None:
        """A header block is whole: that of the answer, or of something said before it."""
        status = self._parser.get_status_code()
        if status < _FINAL_STATUS_MIN:
            if status < _INFORMATIONAL_MIN or status == _SWITCHING:
                raise _Refuse
            return
        self._status = status
        self._left = _RAW_BYTES_MAX + _BYTES_FOR_ONE * self._excerpt_bytes_max
        coded = self._headers.get("transfer-encoding")
        if coded is not None:
            self._until_close = coded[-1].rpartition(",")[2].strip().lower() != "chunked"
        else:
            self._until_close = "content-length" not in self._headers

    def on_body(self, piece: bytes) -> None:
        """A part of the body, of which no more is kept than is needed to know that it is longer."""
        if self._status is not None:
            self._excerpt += piece[: self._excerpt_bytes_max + 1 - len(self._excerpt)]

    def on_message_complete(self) -> None:
        """An answer has ended, or something said before it."""
        if self._status is not None:
            self._is_whole = True
            self.can_go_on = self._parser.should_keep_alive()
