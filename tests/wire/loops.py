"""A client and a server of its own on a loop that a test names, and nothing left of them after it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from app.wire.client import GuardedClient
from app.wire.exchange import Exchange
from tests.wire.servers import LOOPBACK, Behaviour, Server, Talk, listening, post

Run = Callable[[Coroutine[Any, Any, None]], None]
Ask = Callable[..., Coroutine[Any, Any, Exchange]]


def against(
    run: Run,
    behave: Behaviour,
    told: Callable[[Server, Ask], Coroutine[Any, Any, None]],
    **options: Any,
) -> None:
    """Run `told(server, ask)` with a server and a client of its own."""

    async def main() -> None:
        async with (
            listening(behave, host="127.0.0.1", tls=None) as server,
            GuardedClient(LOOPBACK, **options) as client,
        ):

            async def ask(**changes: Any) -> Exchange:
                return await post(client, server.port, **changes)

            await told(server, ask)

    run(main())


def after_request(act: Callable[[asyncio.StreamWriter], Coroutine[Any, Any, None]]) -> Behaviour:
    def behave(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await server.read(reader)
                await act(writer)

        return talk

    return behave
