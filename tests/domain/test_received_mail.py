"""Mail as anybody may have written it: whom an answer goes to, whom none goes to, and which thread it is in."""

import time
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import parseaddr

import pytest

from app.domain.received_mail import (
    ReceivedMail,
    address_of,
    fingerprint,
    headers_of,
    read_headers,
    text_in,
)

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def mail(headers: dict[str, str] | None = None, **told: str) -> ReceivedMail:
    given = {"mailbox": "help@ours.example", "sender": "ada@acme.example", "subject": "Waffles"}
    return ReceivedMail(**(given | told), headers=headers_of((headers or {}).items()))


@pytest.mark.parametrize(
    "text",
    [
        "ada@acme.example",
        "Ada <ada@acme.example>",
        '"Ada, of Acme" <ada@acme.example>',
        '"<evil@acme.example>" <ada@acme.example>',
    ],
)
def test_an_address_is_read_as_the_standard_library_reads_it(text: str) -> None:
    assert address_of(text) == parseaddr(text)[1] == "ada@acme.example"


@pytest.mark.parametrize(
    "text",
    ["ada@acme.example, bob@acme.example", "Ada <ada@acme.example>, Bob <bob@acme.example>"],
)
def test_of_several_addresses_the_first_is_read(text: str) -> None:
    # What the standard library makes of them differs with its release.
    assert address_of(text) == "ada@acme.example"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Ada",
        "<>",
        "<ada@acme.example\r\nBcc: all@acme.example>",
        "ada@acme.example\x00",
        "<ädä@acme.example>",
        "@acme.example",
        "undisclosed-recipients:;",
    ],
)
def test_what_is_no_plain_address_is_none(text: str) -> None:
    assert address_of(text) == ""


def test_hostile_addresses_are_read_in_no_time() -> None:
    began = time.process_time()
    for hostile in ('"\\' * 50_000, "<" * 100_000, '"' * 99_999, "(" * 100_000):
        address_of(hostile)
        mail({"References": hostile, "Message-ID": hostile}).reply(NOW)
        read_headers(hostile.encode() * 20)
    assert time.process_time() - began < 2


def test_headers_are_read_as_the_standard_library_writes_them() -> None:
    message = EmailMessage(policy=SMTP)
    message["Message-ID"] = "<third@acme.example>"
    message["References"] = " ".join(f"<{n}-{'x' * 60}@acme.example>" for n in range(5))
    message.set_content("Message-ID: <not@acme.example>")
    told = read_headers(message.as_bytes())
    assert told["message-id"] == "<third@acme.example>"
    assert told["references"].split() == str(message["References"]).split()
    assert b"\r\n " in message.as_bytes().partition(b"\r\n\r\n")[0]


def test_the_first_of_a_header_counts() -> None:
    assert read_headers(b"A: 1\nB: 2\na: 3\n\nB: 4") == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("headers", "root"),
    [
        ({"Message-ID": "<1@a>"}, "1@a"),
        ({"Message-ID": "<2@a>", "In-Reply-To": "<1@a>"}, "1@a"),
        ({"Message-ID": "<3@a>", "In-Reply-To": "<2@a>", "References": "<1@a> <2@a>"}, "1@a"),
        ({"Message-ID": "<3@a>", "References": "rubbish <1@a>\r\n\t<2@a>"}, "1@a"),
    ],
)
def test_a_conversation_is_the_root_of_its_thread(headers: dict[str, str], root: str) -> None:
    assert mail(headers).conversation == ("help@ours.example", root)


def test_mail_without_any_id_is_in_no_conversation() -> None:
    assert mail({"Message-ID": "none"}).conversation == ()


def test_a_long_thread_keeps_its_root_and_its_end() -> None:
    ids = [f"<{n}@a>" for n in range(500)]
    kept = mail({"References": " ".join(ids)}).references
    assert len(kept) == 20
    assert (kept[0], kept[-1]) == ("<0@a>", "<499@a>")


@pytest.mark.parametrize(
    "headers",
    [
        {"Auto-Submitted": "auto-replied"},
        {"Auto-Submitted": "auto-generated; x=y"},
        {"Precedence": "Bulk"},
        {"Precedence": "list"},
        {"Precedence": "junk"},
        {"List-Id": "<waffles.acme.example>"},
        {"X-Auto-Response-Suppress": "DR, AutoReply"},
        {"X-Auto-Response-Suppress": "All"},
        {"Return-Path": "<>"},
    ],
)
def test_a_machine_is_not_answered(headers: dict[str, str]) -> None:
    assert mail(headers).reply(NOW) is None


@pytest.mark.parametrize("return_path", ["", "<>"])
def test_a_null_sender_is_not_answered(return_path: str) -> None:
    assert mail(return_path=return_path).reply(NOW) is None
    assert mail(return_path="bounces@acme.example").reply(NOW) is not None


def test_a_person_is_answered_where_he_wants_it() -> None:
    reply = mail({"Reply-To": "Ada <ada@home.example>", "Auto-Submitted": "no"}).reply(NOW)
    assert reply is not None
    assert reply.facts == {"to": "ada@home.example", "subject": "Waffles"}
    assert (reply.expires_at - NOW).days == 30


def test_nobody_is_answered_who_is_the_mailbox_itself() -> None:
    assert mail(sender="Help@Ours.example").reply(NOW) is None


def test_a_subject_is_one_line() -> None:
    reply = mail(subject="a\r\nBcc: all@acme.example\x00b").reply(NOW)
    assert reply is not None
    assert reply.facts["subject"] == "a Bcc: all@acme.example b"


@pytest.mark.parametrize(
    "charset", ["utf-8", "iso-8859-1", "windows-1252", "shift_jis", "koi8-r", "euc-kr"]
)
def test_text_is_read_in_its_character_set(charset: str) -> None:
    words = {"shift_jis": "ワッフル", "koi8-r": "вафли", "euc-kr": "와플"}
    text = words.get(charset, "Gr\u00fc\u00dfe")
    assert text_in(text.encode(charset), charset) == text


@pytest.mark.parametrize("charset", ["hex", "punycode", "iso-8859-99", "", "\x00", "x" * 9000])
def test_a_character_set_that_is_none_is_utf_8(charset: str) -> None:
    assert text_in(b"ok \xff", charset) == "ok \ufffd"


def test_fields_have_one_fingerprint_however_they_are_laid_out_and_no_two_share_one() -> None:
    fields = [(b"a", b"1"), (b"b", b"2")]
    assert fingerprint(fields) == fingerprint([*fields, (b"token", b"x")], without=["token"])
    others: tuple[list[tuple[bytes, bytes]], ...] = (
        [(b"a", b"12"), (b"b", b"")],
        [(b"b", b"2"), (b"a", b"1")],
        [(b"a1:b", b"2")],
        [],
    )
    assert len({fingerprint(one) for one in (fields, *others)}) == 5
