"""A mail that comes in by Mailgun is answered through a mail server, in its thread, and once."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from aiosmtpd.smtp import SMTP, Envelope

from tests.providers.samples.mailgun import SIGNATURE, TIME, TOKEN
from tests.system.chats import FORM, TEXTS
from tests.system.conversing import (
    claimed,
    counted,
    from_file,
    nothing_is_shown,
    replied,
    says_both,
    stage,
)
from tests.system.rig import Rig

if TYPE_CHECKING:
    from tests.database import Admin

US, MAILBOX, ADA = "help@ours.example", "help@mg.ours.example", "ada@acme.example"
FIRST, SECOND, THIRD = "<first@acme.example>", "<second@ours.example>", "<third@acme.example>"


def seconds() -> int:
    return int(time.time())  # noqa: TID251 - as a provider's clock


def mail(*, sender: str = ADA, message_id: str = THIRD) -> bytes:
    headers = [["Message-Id", message_id], ["References", f"{FIRST} {SECOND}"]]
    fields = {
        "recipient": MAILBOX,
        "sender": sender,
        "from": f"Ada <{sender}>",
        "subject": "Waffles",
        "body-plain": "a waffle maker?\n\n> which?",
        "stripped-text": "a waffle maker?",
        "message-headers": json.dumps(headers),
        "timestamp": TIME,
        "token": TOKEN,
        "signature": SIGNATURE,
    }
    return urlencode(fields).encode()


# The mail server looks at every member of its handler, which older Pythons cannot do to one with slots.
@dataclass
class GreyServer:
    """Takes no mail when it comes for the first time."""

    port: int = 0
    offered: list[tuple[str, tuple[str, ...], bytes]] = field(default_factory=list)

    async def handle_DATA(self, _server: object, _session: object, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        one = (envelope.mail_from or "", tuple(envelope.rcpt_tos), envelope.content)
        is_new = one not in self.offered
        self.offered.append(one)
        return "451 4.7.1 Greylisted, come again" if is_new else "250 2.0.0 Ok: queued as 4F2A"


@asynccontextmanager
async def grey_server() -> AsyncIterator[GreyServer]:
    grey = GreyServer()
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: SMTP(grey, hostname="mx.example"), "127.0.0.1", 0)
    grey.port = listener.sockets[0].getsockname()[1]
    try:
        yield grey
    finally:
        listener.close()


def threads(read: EmailMessage) -> list[str]:
    return str(read["References"]).split()


async def test_a_mail_is_heard_once_and_answered_in_its_thread(rig: Rig, admin: "Admin") -> None:
    async with grey_server() as grey:
        place = await stage(
            rig,
            "mailgun",
            source=f'secrets = [{from_file(rig, "signing")}]\nown_addresses = ["{US}"]',
            destination_kind="smtp",
            destination=f'host = "127.0.0.1"\nport = {grey.port}\nsecurity = "none"\nfrom = "{US}"',
            token="unused",
        )
        now = seconds()
        await place.comes_once(mail(), FORM, now, (b"waffle", b"coffee"))
        turn, _ = await claimed(place.service)
        (inbound,) = turn["inbound"]
        raw = base64.b64decode(inbound["payload_base64"])
        assert (raw.count(b"waffle"), TIME.encode() in raw) == (2, False)
        view = inbound["view"]
        assert (view["text"], view["sender"]) == ("a waffle maker?", f"Ada <{ADA}>")
        assert view["conversation"] == f"chat:{MAILBOX}/first@acme.example"
        await says_both(place.service, turn)
        sent = await replied(admin)
        assert [one["state"] for one in sent] == ["delivered", "delivered"]
        # Each came twice, byte for byte the same, and the second after the first.
        assert [one[:2] for one in grey.offered] == [(US, (ADA,))] * 4
        first, again, second, once_more = (one[2] for one in grey.offered)
        assert (first, second) == (again, once_more)
        read = [message_from_bytes(one, policy=policy.default) for one in (first, second)]
        assert [one["Message-ID"] for one in read] == [one["receipt"] for one in sent]
        assert read[0]["Message-ID"] != read[1]["Message-ID"]
        for one, text in zip(read, TEXTS, strict=True):
            assert (one["From"], one["To"], one["Subject"]) == (US, ADA, "Re: Waffles")
            assert one["In-Reply-To"] == THIRD
            assert threads(one) == [FIRST, SECOND, THIRD]
            assert one.get_content().strip() == text
        # Ada's mailbox sends ours back, as lists do.
        echo = mail(sender=US, message_id=read[0]["Message-ID"])
        for _ in range(2):
            # Another second, and so another signature than that of the mail.
            assert (await place.post(echo, FORM, now + 1)).status == 200
        assert await admin.fetchval("select count(*) from sink.turn") == 1
        assert await counted(place.service, "sinksweep_source_items_total", result="differing") == 1
    await nothing_is_shown(place, admin)
