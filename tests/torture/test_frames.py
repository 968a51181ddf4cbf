"""The parser that tells a proxy where a commit is asked for."""

from hypothesis import given
from hypothesis import strategies as st

from tests.torture.frames import ClientFrames

STARTUP = (8 + 4).to_bytes(4, "big") + (196608).to_bytes(4, "big") + b"\0\0\0\0"


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


BEGIN = message(b"Q", b"BEGIN;\0")
COMMIT = message(b"Q", b"COMMIT;\0")
ASKED = message(b"B", b"parameters") + message(b"E", b"\0\0\0\0\0") + message(b"S")


def marked(stream: bytes, *, step: int) -> tuple[bytes, list[bytes]]:
    """All that came out, and what was marked as a commit."""
    frames = ClientFrames()
    pieces = [
        piece
        for start in range(0, len(stream), step)
        for piece in frames.feed(stream[start : start + step])
    ]
    return b"".join(piece.data for piece in pieces), [p.data for p in pieces if p.commits]


@given(st.integers(1, 60))
def test_a_commit_is_found_however_the_stream_is_cut_and_nothing_is_lost(step: int) -> None:
    stream = STARTUP + BEGIN + ASKED + COMMIT + ASKED
    passed, commits = marked(stream, step=step)
    assert passed == stream
    assert commits == [COMMIT, message(b"S")]


def test_a_statement_in_a_transaction_is_not_a_commit_and_a_rollback_is_none() -> None:
    rolled_back = STARTUP + BEGIN + ASKED + message(b"Q", b"ROLLBACK;\0")
    assert marked(rolled_back, step=7)[1] == []
    assert marked(rolled_back + ASKED, step=7)[1] == [message(b"S")]


def test_preparing_a_statement_is_not_a_commit() -> None:
    assert marked(STARTUP + message(b"P", b"select") + message(b"S"), step=5)[1] == []
