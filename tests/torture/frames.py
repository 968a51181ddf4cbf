"""Where a commit is asked for in what a client of Postgres writes, so that a proxy can cut exactly there.

A pure parser of the protocol's framing: it is fed bytes in any pieces and gives the same bytes back.
"""

from dataclasses import dataclass, field

MESSAGE_BYTES_MAX = 1 << 26
READY = b"Z\x00\x00\x00\x05"
_SSL_REQUEST = 80877103
_UNTYPED_HEAD = 4
_TYPED_HEAD = 5


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole messages, or the part of one that is there. `commits`: when the server has all of it, it commits."""

    data: bytes
    commits: bool = False


@dataclass(slots=True)
class ClientFrames:
    """The state of one client's stream: `COMMIT` as a simple query, or a statement that is its own transaction."""

    _rest: bytes = b""
    _started: bool = False
    _explicit: bool = False
    _executed: bool = False
    _whole: list[bytes] = field(default_factory=list)

    def feed(self, data: bytes) -> list[Piece]:
        """Cut what arrived into pieces, one of them behind each message that asks for a commit."""
        self._rest += data
        pieces: list[Piece] = []
        while (size := self._size()) is not None and len(self._rest) >= size:
            message, self._rest = self._rest[:size], self._rest[size:]
            if self._asks_for_commit(message):
                # What came before it goes first, so that a cut before the commit leaves the rest of the work done.
                self._flush(pieces)
                pieces.append(Piece(message, commits=True))
            else:
                self._whole.append(message)
        self._flush(pieces)
        return pieces

    def _flush(self, pieces: list[Piece]) -> None:
        if self._whole:
            pieces.append(Piece(b"".join(self._whole)))
            self._whole.clear()

    def _size(self) -> int | None:
        head = _TYPED_HEAD if self._started else _UNTYPED_HEAD
        if len(self._rest) < head:
            return None
        size = int.from_bytes(self._rest[head - 4 : head], "big") + head - 4
        if not head <= size <= MESSAGE_BYTES_MAX:
            message = f"not a message of Postgres: {size} bytes"
            raise ValueError(message)
        return size

    def _asks_for_commit(self, message: bytes) -> bool:
        if not self._started:
            # A wish for encryption is answered before the stream starts; every other first message starts it.
            self._started = int.from_bytes(message[4:8], "big") != _SSL_REQUEST
            return False
        match message[:1]:
            case b"Q":
                return self._query(message[_TYPED_HEAD:].upper())
            case b"E":
                self._executed = True
            case b"S":
                executed, self._executed = self._executed, False
                return executed and not self._explicit
            case _:
                pass
        return False

    def _query(self, text: bytes) -> bool:
        if text.startswith(b"BEGIN"):
            self._explicit = True
        elif text.startswith((b"COMMIT", b"ROLLBACK")):
            self._explicit = False
        return text.startswith(b"COMMIT")
