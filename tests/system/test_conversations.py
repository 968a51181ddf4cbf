"""From a provider to an agent and back again, over real sockets: heard once, answered in order, in the right place."""

import base64
import time
from typing import TYPE_CHECKING

import pytest

from app.domain.json_view import slices_at
from tests.channels.conformance.fakes import http_fake
from tests.system.chats import CHATS, Chat
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


def raw_of(kind: str, body: bytes) -> list[bytes]:
    """The parts of a body that are kept by themselves."""
    if kind != "whatsapp":
        return [body]
    path = ("entry", "*", "changes", "*", "value", "messages", "*")
    return [raw for _, raw in slices_at(body, *path)]


def seconds() -> int:
    return int(time.time())  # noqa: TID251 - as a provider's clock


@pytest.mark.parametrize("chat", CHATS, ids=lambda chat: chat.kind)
async def test_a_conversation_is_heard_once_and_answered_in_its_place(
    rig: Rig, admin: "Admin", chat: Chat
) -> None:
    failing = [one for pair in zip(chat.first, chat.good, strict=False) for one in pair]
    answers = [*failing, *chat.good[len(chat.first) :]]
    async with http_fake(*answers) as fake:
        place = await stage(
            rig,
            chat.kind,
            source=f"secrets = [{from_file(rig, 'signing')}]\n{chat.source}",
            destination_kind=chat.kind,
            destination=f"token = {from_file(rig, 'token')}\n"
            + chat.destination.format(port=fake.port),
            token=chat.token,
        )
        service = place.service
        now = seconds()
        body = chat.said(now)
        await place.comes_once(body, chat.content_type, now, chat.changed)
        turn, as_it_came = await claimed(service)
        (inbound,) = turn["inbound"]
        assert inbound["view"] | chat.view == inbound["view"]
        # JSON stands in the answer byte for byte, or the one item of the batch; what is no JSON stands in base64.
        (raw,) = raw_of(chat.kind, body)
        in_base64 = inbound.get("payload_base64")
        assert raw in as_it_came if in_base64 is None else base64.b64decode(in_base64) == raw
        await says_both(service, turn)
        sent = await replied(admin)
        assert [(one["state"], one["receipt"]) for one in sent] == [
            ("delivered", receipt) for receipt in chat.receipts
        ]
        pairs = list(zip(fake.requests, answers, strict=True))
        taken = [one for one, said in pairs if said not in chat.first]
        chat.check(taken)
        # What was refused was the same as what was taken.
        refused = [one.body for one, said in pairs if said in chat.first]
        assert refused == [one.body for one in taken[: len(chat.first)]]
        for echo in chat.echoes:
            for _ in range(2):
                assert (
                    await place.post(echo(seconds()), chat.content_type, seconds())
                ).status == 200
        assert await admin.fetchval("select count(*) from sink.turn") == 1
        assert await admin.fetchval("select count(*) from sink.inbound") == 1
        assert await counted(service, "sinksweep_source_items_total", result="differing") == 1
    await nothing_is_shown(place, admin)
