"""An answer is the same however its bytes are cut, and nothing of a connection is taken for it that is not."""

import pytest

from app.wire.answer import ANSWER_HEAD_BYTES_MAX, AnswerReader
from app.wire.exchange import Answered

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def read(*pieces: bytes, most: int = 100, eof: bool = False) -> tuple[Answered | None, bool, bool]:
    """What is known after these pieces, whether no more was wanted, and whether the connection can go on."""
    reader = AnswerReader()
    reader.begin(excerpt_bytes_max=most)
    has_ended = False
    for piece in pieces:
        has_ended = reader.feed(piece)
        if has_ended:
            break
    if eof:
        reader.feed_eof()
    return reader.answered(), has_ended, reader.can_go_on


def cut(answer: bytes) -> list[bytes]:
    return [answer[at : at + 1] for at in range(len(answer))]


GOOD = {
    "with a length": (OK, b"ok", True),
    "after empty lines": (b"\r\n\r\n" + OK, b"ok", True),
    "with bare line feeds": (OK.replace(b"\r\n", b"\n"), b"ok", True),
    "without words": (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", b"ok", True),
    "after others": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hi\r\nX: y\r\n\r\n" + OK,
        b"ok",
        True,
    ),
    "in chunks": (CHUNKED + b"1\r\no\r\n1;a=b\r\nk\r\n0\r\n\r\n", b"ok", True),
    "with a trailer": (CHUNKED + b"2 \r\nok\r\n0\r\nX-Late: 1\r\n\r\n", b"ok", True),
    "without a body": (b"HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n", b"", True),
    "of an old server": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok", False),
    "that says close": (OK.replace(b"\r\n\r\n", b"\r\nConnection: x, Close\r\n\r\n"), b"ok", False),
}
BAD = {
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    "a list of lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok",
    "a signed length": b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
    "a length beyond all": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok",
    "a length and chunks": CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n"),
    "a name with a space": b"HTTP/1.1 200 OK\r\nX : y\r\nContent-Length: 2\r\n\r\nok",
    "no name": b"HTTP/1.1 200 OK\r\n: y\r\nContent-Length: 2\r\n\r\nok",
    "a zero byte": b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 2\r\n\r\nok",
    "a status of two digits": b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok",
    "a status below all": b"HTTP/1.1 099 OK\r\nContent-Length: 2\r\n\r\nok",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n" + OK,
    "no version": b"hello\r\n\r\n",
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_answer_is_read_the_same_however_it_is_cut(name: str) -> None:
    answer, body, can_go_on = GOOD[name]
    whole = read(answer)
    known, has_ended, goes_on = whole
    assert known is not None
    assert (known.excerpt, known.complete, has_ended, goes_on) == (body, True, True, can_go_on)
    assert "x" not in known.headers
    assert "x-late" not in known.headers
    assert read(*cut(answer)) == whole
    for at in range(1, len(answer)):
        assert read(answer[:at], answer[at:]) == whole


@pytest.mark.parametrize("name", BAD)
def test_what_leaves_its_length_or_its_meaning_in_doubt_is_no_answer(name: str) -> None:
    assert read(BAD[name]) == (None, True, False)
    assert read(*cut(BAD[name])) == (None, True, False)


@pytest.mark.parametrize("name", GOOD)
def test_an_answer_that_stops_is_known_from_the_end_of_its_header_block_on(name: str) -> None:
    answer, _, _ = GOOD[name]
    whole, _, _ = read(answer)
    assert whole is not None
    for at in range(len(answer)):
        known, has_ended, _ = read(answer[:at], eof=True)
        if known is not None:
            assert (known.status, known.headers) == (whole.status, whole.headers)
            assert not known.complete
        assert not has_ended


@pytest.mark.parametrize("broken", [b"zz\r\n", b"-1\r\n", b"fffffffffffffffff\r\n", b"2\r\nokXX"])
def test_a_broken_body_leaves_what_came_before_it(broken: bytes) -> None:
    for pieces in ((CHUNKED + b"1\r\na\r\n" + broken,), cut(CHUNKED + b"1\r\na\r\n" + broken)):
        known, has_ended, can_go_on = read(*pieces)
        assert known is not None
        assert (known.status, known.excerpt[:1], known.complete) == (200, b"a", False)
        assert (has_ended, can_go_on) == (True, False)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
    ],
)
def test_an_answer_without_a_length_ends_with_the_connection(head: bytes) -> None:
    known, has_ended, can_go_on = read(head, b"abc", eof=True)
    assert known is not None
    assert (known.excerpt, known.complete, has_ended, can_go_on) == (b"abc", True, False, False)
    unfinished, _, _ = read(head, b"abc")
    assert unfinished is not None
    assert not unfinished.complete


@pytest.mark.parametrize("more", [OK, b"HTTP/1.1 2", b"x", b"\0\0"])
def test_what_stands_behind_an_answer_ends_the_connection_and_changes_nothing(more: bytes) -> None:
    known, has_ended, can_go_on = read(OK + more)
    assert known == Answered(200, {"content-length": ("2",)}, b"ok", complete=True)
    assert (has_ended, can_go_on) == (True, False)


def test_one_reader_reads_one_answer_after_another() -> None:
    reader = AnswerReader()
    for _ in range(3):
        for answer, body, can_go_on in GOOD.values():
            reader.begin(excerpt_bytes_max=10)
            assert reader.answered() is None
            if not can_go_on:
                continue
            assert reader.feed(answer)
            known = reader.answered()
            assert known is not None
            assert (known.excerpt, known.complete) == (body, True)


def test_names_are_lower_case_and_values_stand_as_they_are() -> None:
    fields = "X-A: \u00e4 \t\r\nx-a:b\r\nX-B:\r\n".encode() + b"X-C: \xff\r\n"
    known, _, _ = read(OK.replace(b"\r\n\r\n", b"\r\n" + fields + b"\r\n"))
    assert known is not None
    assert known.headers == {
        "content-length": ("2",),
        "x-a": ("\u00e4", "b"),
        "x-b": ("",),
        "x-c": ("\udcff",),
    }


def test_a_body_is_kept_to_its_limit() -> None:
    for most, excerpt, complete in ((3, b"ok", True), (2, b"ok", True), (1, b"o", False)):
        for pieces in ((OK,), cut(OK)):
            known, has_ended, _ = read(*pieces, most=most)
            assert known is not None
            assert (known.excerpt, known.complete, has_ended) == (excerpt, complete, True)


@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
def test_a_header_block_has_a_longest_line_a_greatest_number_and_a_greatest_size(size: int) -> None:
    def answered(*fields: bytes) -> bool:
        answer = b"HTTP/1.1 200 OK\r\n" + b"".join(fields) + b"Content-Length: 0\r\n\r\n"
        known, _, _ = read(*(answer[at : at + size] for at in range(0, len(answer), size)))
        return known is not None

    for fine, too_much in ((127, 128),):
        assert answered(*[b"X: y\r\n"] * fine)
        assert not answered(*[b"X: y\r\n"] * too_much)
    assert answered(b"X: " + b"y" * 8180 + b"\r\n")
    assert not answered(b"X: " + b"y" * 8190 + b"\r\n")
    large = b"X: " + b"y" * 8000 + b"\r\n"
    assert answered(*[large] * 8)
    assert not answered(*[large] * 9)


@pytest.mark.parametrize(
    "flood",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Hi\r\nX: y\r\n\r\n",
        b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 9,
    ],
)
def test_what_never_comes_to_a_header_block_is_given_up(flood: bytes) -> None:
    reader = AnswerReader()
    reader.begin(excerpt_bytes_max=100)
    pieces = [flood, *[b"y" * 9] * 40_000] if flood.endswith(b"y") else [flood] * 80_000
    taken = 0
    for piece in pieces:
        taken += len(piece)
        if reader.feed(piece):
            break
    assert taken <= 2 * ANSWER_HEAD_BYTES_MAX + len(flood)
    assert reader.answered() is None


def test_a_body_that_is_nearly_all_wrapping_is_given_up() -> None:
    reader = AnswerReader()
    reader.begin(excerpt_bytes_max=100)
    reader.feed(CHUNKED)
    taken = 0
    while not reader.feed(b"1;" + b"e" * 5000 + b"\r\na\r\n"):
        taken += 5000
        assert taken < 1_000_000
    known = reader.answered()
    assert known is not None
    assert (known.status, known.complete) == (200, False)
