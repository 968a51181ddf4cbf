"""Mail as bytes: read back by the standard library as it was meant, and the same every time."""

from datetime import UTC, datetime
from email import message_from_bytes
from email.header import decode_header, make_header
from email.policy import default
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.mail import Mail, build_mail, is_address, is_message_id, is_one_line


def mail(**changes: Any) -> Mail:
    fields: dict[str, Any] = {
        "message_id": "<msg_1@acme.example>",
        "sender": "help@acme.example",
        "sender_name": None,
        "recipient": "ann@user.example",
        "subject": "Hello",
        "text": "Hi",
        "html": None,
        "parents": (),
        "date": datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC),
    }
    return Mail(**{**fields, **changes})


def read(one: Mail) -> Any:
    return message_from_bytes(build_mail(one), policy=default)


lines = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=120
)


@given(subject=lines.map(str.strip).filter(bool), name=lines.map(str.strip).filter(bool))
def test_words_come_back_as_they_were(subject: str, name: str) -> None:
    if not (is_one_line(subject) and is_one_line(name)):
        return
    found = read(mail(subject=subject, sender_name=name))
    assert found["Subject"] == subject
    assert found["From"].addresses[0].addr_spec == "help@acme.example"
    raw = message_from_bytes(build_mail(mail(sender_name=name)))["From"].replace("\r\n", "")
    assert str(make_header(decode_header(raw))).removesuffix("<help@acme.example>").strip() == name
    assert [header for header in found if header.lower() in {"bcc", "cc"}] == []


def test_a_plain_subject_stands_as_it_is_and_what_would_be_read_otherwise_does_not() -> None:
    assert b"\r\nSubject: Re: [Acme] 5 < 7, or (not)?\r\n" in build_mail(
        mail(subject="Re: [Acme] 5 < 7, or (not)?")
    )
    for subject in ("=?utf-8?Q?no?=", "two  spaces", "caf\u00e9"):
        assert f"Subject: {subject}\r\n".encode() not in build_mail(mail(subject=subject))
        assert read(mail(subject=subject))["Subject"] == subject


@given(text=st.text(max_size=500), html=st.none() | st.text(max_size=100))
def test_text_comes_back_whatever_it_holds_and_no_line_is_too_long(
    text: str, html: str | None
) -> None:
    try:
        # Halves of characters are refused at the seal.
        (text + (html or "")).encode()
    except UnicodeEncodeError:
        return
    made = build_mail(mail(text=text, html=html))
    assert made == build_mail(mail(text=text, html=html))
    assert made.isascii()
    assert b"\r" not in made.replace(b"\r\n", b"")
    assert b"\n" not in made.replace(b"\r\n", b"")
    assert max(len(line) for line in made.split(b"\r\n")) <= 998
    body = read(mail(text=text, html=html)).get_body(("plain",))
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    assert body.get_content().replace("\r\n", "\n").rstrip("\n") == plain.rstrip("\n")


def test_a_thread_is_named_from_its_root_to_its_last() -> None:
    parents = tuple(f"<{n:060d}@a-long-domain.example>" for n in range(20))
    found = read(mail(parents=parents))
    assert found["In-Reply-To"] == parents[-1]
    assert found["References"].split() == list(parents)
    assert found["Auto-Submitted"] == "auto-replied"
    assert read(mail())["Auto-Submitted"] == "auto-generated"


def test_both_forms_of_a_text_go_together() -> None:
    found = read(mail(html="<p>Hi</p>"))
    assert found.get_content_type() == "multipart/alternative"
    kinds = [part.get_content_type() for part in found.iter_parts()]
    assert kinds == ["text/plain", "text/html"]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "ann",
            "@b.example",
            "a@",
            "a b@c.example",
            "a@b c",
            "<a@b.example>",
            "a@b.example,c@d.example",
        ),
        *(
            "a@b.example\r\n",
            "a@b.example\nBcc: x@y",
            "ä@b.example",
            "a..b@c.example",
            "a@-b.example",
            "a@b.example.",
        ),
        "a" * 250 + "@b.example",
    ],
)
def test_what_is_no_single_plain_address_is_none(text: str) -> None:
    assert not is_address(text)


@pytest.mark.parametrize("text", ["ann@user.example", "a.b+c@x-y.example", "root@localhost"])
def test_a_plain_address_is_one(text: str) -> None:
    assert is_address(text)


@pytest.mark.parametrize("value", ["a@b", "<a b>", "<>", "<a@b", "<a@b>\r\nX: y", "<a<b>", 5, None])
def test_what_is_no_message_id_is_none(value: object) -> None:
    assert not is_message_id(value)
    assert is_message_id("<CAF=x+1@mail.example>")
