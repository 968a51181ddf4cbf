"""Mail over SMTP, taken by a real server. RFC 5321, RFC 5322, RFC 3834."""

from email import message_from_bytes
from email.policy import default
from typing import Any

from app.channels import Reply
from app.domain.outcome import Delivered, Rejected, RetryLater, Unknown
from tests.channels.conformance.fakes import REAL, mail_fake
from tests.channels.conformance.sample import Case, Sample, shut

KEY = "msg_01m8mm0q26eqsr3g96xejx5fy8"


def sent(requests: Any) -> None:
    [letter] = requests
    assert (letter.sender, letter.recipients) == ("help@acme.example", ("ann@user.example",))
    mail = message_from_bytes(letter.body, policy=default)
    assert dict(mail.items()) == {
        "Date": "Sun, 01 Mar 2026 12:00:00 +0000",
        "From": "Acme <help@acme.example>",
        "To": "ann@user.example",
        "Subject": "Re: The red one",
        "Message-ID": f"<{KEY}@acme.example>",
        "In-Reply-To": "<second@user.example>",
        "References": "<first@user.example> <second@user.example>",
        "Auto-Submitted": "auto-replied",
        "X-Auto-Response-Suppress": "All",
        "MIME-Version": "1.0",
        "Content-Type": 'text/plain; charset="utf-8"',
        "Content-Transfer-Encoding": "quoted-printable",
    }
    assert mail.get_content().strip() == "Hello, you"


def key(requests: Any) -> str:
    mail = message_from_bytes(requests[0].body, policy=default)
    return str(mail["Message-ID"])


def talk(*replies: str) -> bytes:
    return b"|".join(reply.encode() + b"\r\n" for reply in replies)


HELLO = ("220 mx.example", "250-mx.example\r\n250 SIZE 1000000")
READY = (*HELLO, "250 2.1.0 Ok", "250 2.1.5 Ok", "354 Go on")

SAMPLE = Sample(
    config={
        "host": "127.0.0.1",
        "port": "{number}",
        "security": "none",
        "from": "help@acme.example",
        "from_name": "Acme",
    },
    reply=Reply(
        kind="postmark",
        parts=("help@acme.example", "first@user.example"),
        capability={
            "to": "ann@user.example",
            "message_id": "<second@user.example>",
            "references": "<first@user.example>",
            "subject": "The red one",
        },
    ),
    sent=sent,
    good=REAL,
    receipt=f"<{KEY}@acme.example>",
    key=key,
    refused=(
        ({"payload": {"text": ""}}, "/payload/text", "text_empty"),
        ({"payload": {"html": "<p>"}}, "/payload/text", "required"),
        (
            {"payload": {"text": "a", "subject": "b\r\nBcc: eve@e.example"}},
            "/payload/subject",
            "text_invalid",
        ),
        ({"payload": {"text": "a", "bcc": "eve@e.example"}}, "/payload/bcc", "field_not_allowed"),
        ({"headers": {"Bcc": "eve@e.example"}}, "/headers", "header_not_allowed"),
        ({"recipient": "ann"}, "/to", "to_invalid"),
        ({"recipient": "ann@user.example, eve@e.example"}, "/to", "to_invalid"),
        ({"recipient": "ann@user.example\r\nRCPT TO:<eve@e.example>"}, "/to", "to_invalid"),
        ({"recipient": "ann@user.example>"}, "/to", "to_invalid"),
        ({"reply": None}, "/to", "to_missing"),
        ({"reply": Reply(kind="postmark", parts=("ann@user.example",))}, "/to", "to_missing"),
        (
            {"reply": Reply(kind="postmark", capability={"to": "ann@user.example"})},
            "/payload/subject",
            "required",
        ),
    ),
    cases=(
        Case("taken", talk(*READY, "250 2.0.0 Ok: queued"), Delivered(f"<{KEY}@acme.example>")),
        Case(
            "no such user", talk(*READY[:3], "550 5.1.1 No such user"), Rejected("smtp_550 5.1.1")
        ),
        Case("grey", talk(*READY[:3], "451 4.7.1 Greylisted"), RetryLater("smtp_451 4.7.1")),
        Case("full", talk(*READY, "452 4.3.1 Full"), RetryLater("smtp_452 4.3.1")),
        Case("spam", talk(*READY, "554 5.7.1 Spam"), Rejected("smtp_554 5.7.1")),
        Case("too large", talk(*HELLO, "552 5.3.4 Too large"), Rejected("smtp_552 5.3.4")),
        Case("no such sender", talk(*HELLO, "550 5.7.60 Not yours"), shut("smtp_550 5.7.60")),
        Case("busy", talk("421 4.3.2 Later"), RetryLater("smtp_421 4.3.2")),
        Case("no service", talk("554 Not here"), RetryLater("smtp_554")),
        Case(
            "cut before the dot", talk(*READY[:4]) + b"|!", RetryLater("connection_cut_before_send")
        ),
        Case("cut behind the dot", talk(*READY) + b"|!", Unknown("connection_cut")),
        Case("nonsense behind the dot", talk(*READY, "yes!"), Unknown("malformed_answer")),
    ),
    fake=mail_fake,
    hostile=(
        b"",
        b"!",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"220",
        b"220 mx\r\n|999 what\r\n",
        b"220 mx\r\n|" + b"250-x\r\n" * 200,
        b"220 " + b"x" * 1_000_000,
        b"\xff\xfe\x00\r\n",
        b"220 mx\r\n|250 mx\r\n|250 ok\r\n|250 ok\r\n|250 not 354\r\n",
        talk(*READY, "354 still going on"),
        talk(*READY, "3"),
    ),
    probes=(
        (REAL, True, "the mail server answers"),
        (talk("554 Not here"), False, "greeting with 554"),
        (b"HTTP/1.1 400 Bad\r\n\r\n", False, "speaks something else"),
    ),
)
