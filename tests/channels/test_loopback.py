"""Deliveries into this installation's own store."""

from collections.abc import Callable

from app.channels import Outgoing, Wire
from app.channels.loopback import LoopbackConfig, channel
from app.domain.errors import NotReady
from app.domain.outcome import Delivered, Outcome, Unknown


async def send(message: Outgoing, *, wire: Wire) -> Outcome:
    return await channel.send(message, config=LoopbackConfig(), secrets=(), wire=wire)


async def test_the_receipt_counts_how_often_a_key_arrived(
    wire: Wire, outgoing: Callable[..., Outgoing]
) -> None:
    assert await send(outgoing(), wire=wire) == Delivered(receipt="loopback:1")
    assert await send(outgoing(), wire=wire) == Delivered(receipt="loopback:2")
    assert await send(outgoing(key="key_2"), wire=wire) == Delivered(receipt="loopback:1")


async def test_a_store_that_did_not_answer_may_have_kept_it(
    wire: Wire, outgoing: Callable[..., Outgoing]
) -> None:
    async def gone(_message: Outgoing) -> int:
        raise NotReady("database_unavailable", "no connection")

    outcome = await send(outgoing(), wire=Wire(http=wire.http, store=gone))
    assert outcome == Unknown("store_not_ready")
