"""Forms with files are read whole or refused, whatever the bytes are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.multipart import PARTS_MAX, Part, fields_of, read_multipart
from app.domain.webhook import Refused

TYPE = "multipart/form-data; boundary=xYz"


def form(*parts: bytes) -> bytes:
    return b"".join(b"--xYz\r\n" + part + b"\r\n" for part in parts) + b"--xYz--\r\n"


def field(name: str, value: bytes) -> bytes:
    return b'Content-Disposition: form-data; name="%b"\r\n\r\n%b' % (name.encode(), value)


def test_fields_and_files_are_told_apart_and_their_bytes_are_kept() -> None:
    file = (
        b'Content-Disposition: form-data; name="attachment1"; filename="a \\"b\\".txt"\r\n'
        b"Content-Type: Text/Plain; charset=iso-8859-1\r\n\r\n\x00\r\n--xY\xff"
    )
    parts = read_multipart(TYPE, form(field("text", b"caf\xe9\r\n"), file, field("empty", b"")))
    assert parts == [
        Part("text", b"caf\xe9\r\n"),
        Part("attachment1", b"\x00\r\n--xY\xff", 'a "b".txt', "text/plain", "iso-8859-1"),
        Part("empty", b""),
    ]
    assert fields_of(parts) == [(b"text", b"caf\xe9\r\n"), (b"empty", b"")]


def test_a_name_may_come_in_its_long_form_and_a_boundary_in_quotes() -> None:
    file = b"content-disposition: form-data; name=f; filename*=utf-8''caf%C3%A9.png\r\n\r\nx"
    (part,) = read_multipart('multipart/form-data; boundary="xYz"', form(file))
    assert (part.name, part.filename) == ("f", "café.png")


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/plain", form(field("a", b"1"))),
        ("multipart/form-data", form(field("a", b"1"))),
        (TYPE, b""),
        (TYPE, form(field("a", b"1"))[:-6]),
        (TYPE, b"--xYz\r\nno blank line\r\n--xYz--"),
        (TYPE, form(*[field("a", b"")] * (PARTS_MAX + 1))),
        (TYPE, form(b"X: " + b"y" * 20_000 + b"\r\n\r\n")),
    ],
)
def test_what_is_no_whole_form_is_refused(content_type: str, body: bytes) -> None:
    with pytest.raises(Refused):
        read_multipart(content_type, body)


@given(st.lists(st.tuples(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.binary())))
def test_whatever_is_written_is_read_back(values: list[tuple[str, bytes]]) -> None:
    kept = [(name, value) for name, value in values if b"--xYz" not in value]
    parts = read_multipart(TYPE, form(*(field(name, value) for name, value in kept)))
    assert [(part.name, part.value) for part in parts] == kept


@given(st.text(), st.binary())
def test_no_bytes_do_harm(content_type: str, body: bytes) -> None:
    for told in (content_type, TYPE):
        for sent in (body, form(body)):
            try:
                read_multipart(told, sent)
            except Refused as refused:
                assert str(refused).isascii()  # noqa: PT017
