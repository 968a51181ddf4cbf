"""An answer that is written at once: what it may not hold, and what of a body is taken with it."""

import asyncio
import logging
from typing import Any, cast

import pytest
from starlette.responses import Response
from uvicorn.protocols.http.flow_control import FlowControl

from app.api.exchange import Exchange


class Pipe(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    def resume_reading(self) -> None:
        pass


def exchange_on(pipe: Pipe, *, keep_alive: bool = True) -> Exchange:
    scope = cast("Any", {"type": "http", "method": "POST"})
    log = logging.getLogger(__name__)
    return Exchange(
        scope=scope,
        transport=pipe,
        flow=FlowControl(pipe),
        logger=log,
        access_logger=log,
        access_log=False,
        default_headers=[],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=lambda: None,
    )


@pytest.mark.parametrize("value", ["a\r\nx-more: 1", "a\nb", "a\rb", "a\x00b"])
async def test_a_header_cannot_become_two(value: str) -> None:
    pipe = Pipe()
    with pytest.raises(RuntimeError):
        exchange_on(pipe).answer(Response(b"x", headers={"x-one": value}), b"")
    assert pipe.written == b""


async def test_the_connection_header_is_written_once_and_closes() -> None:
    for keep_alive, headers in (
        (True, {"Connection": "close"}),
        (False, {}),
        (False, {"Connection": "close"}),
    ):
        pipe = Pipe()
        exchange_on(pipe, keep_alive=keep_alive).answer(Response(b"x", headers=headers), b"")
        assert pipe.written.count(b"connection: close\r\n") == 1
        assert pipe.closed
    pipe = Pipe()
    exchange_on(pipe).answer(Response(b"x"), b"date: now\r\n")
    assert pipe.written == b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-length: 1\r\n\r\nx"
    assert not pipe.closed


async def test_who_has_left_is_written_nothing() -> None:
    pipe = Pipe()
    exchange = exchange_on(pipe)
    exchange.disconnected = True
    exchange.answer(Response(b"x"), b"")
    assert pipe.written == b""
    assert exchange.whole_body(10) is None


async def test_a_body_is_taken_whole_or_not_at_all() -> None:
    exchange = exchange_on(Pipe())
    exchange.body += b"12345"
    assert exchange.whole_body(5) is None
    exchange.more_body = False
    assert exchange.whole_body(4) is None
    assert exchange.whole_body(5) == b"12345"
    assert exchange.whole_body(5) == b""


async def test_an_answer_without_a_length_is_not_written_at_once() -> None:
    exchange = exchange_on(Pipe())
    assert exchange.can_answer(Response(b"x"))
    assert not exchange.can_answer(Response(status_code=204))
    exchange.flow.pause_writing()
    assert not exchange.can_answer(Response(b"x"))
