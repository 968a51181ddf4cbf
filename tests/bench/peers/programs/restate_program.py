"""Restate: a turn is a handler whose three sends are steps of its journal. Restate itself is the front.

It keeps what it acknowledges in a store of its own, not in Postgres, and pushes to this service at once, so nothing
waits here for a worker that starts later.
"""

import json
import sys

import hypercorn.asyncio
import hypercorn.config
import restate
import uvloop
from program import Json, Sender, note, outgoing

STREAMS_MAX = 10_000
task: Json = json.loads(sys.argv[1])
sender = Sender(task)
service = restate.Service("bench")


@service.handler()
async def turn(context: restate.Context, payload: Json) -> None:
    for n, message in enumerate(outgoing(payload)):
        await context.run_typed(f"send-{n}", sender.send, payload=message)


@service.handler()
async def accept(_context: restate.Context, _payload: Json) -> None:
    """Nothing: for the rate of accepts alone."""


@service.handler(name="note")
async def noted(_context: restate.Context, payload: Json) -> None:
    note(payload)


if __name__ == "__main__":
    config = hypercorn.config.Config()
    config.bind = [f"127.0.0.1:{task['port']}"]
    config.loglevel = "warning"
    config.h2_max_concurrent_streams = STREAMS_MAX
    uvloop.run(hypercorn.asyncio.serve(restate.app([service]), config))
