"""Serves a folder until SIGINT, then asks one last query: the process that the tests kill."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import asyncpg

from app.dev import child
from app.dev.binaries import find_binaries
from app.dev.postgres import EmbeddedPostgres


async def serve(folder: Path, *, durable: bool) -> None:
    stopping = asyncio.Event()
    found = find_binaries()
    async with EmbeddedPostgres.open(folder, binaries=found, durable=durable) as server:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stopping.set)
        connection = await asyncpg.connect(server.url)
        print(json.dumps({"url": server.url, "pid": server.pid}), flush=True)
        await stopping.wait()
        print(await connection.fetchval("select 'drained'"), flush=True)
        await connection.close()


if __name__ == "__main__":
    if "--outlived" in sys.argv:
        # A platform that tells no child of its parent's death.
        setattr(child, "sys", SimpleNamespace(platform="elsewhere"))  # noqa: B010
    asyncio.run(serve(Path(sys.argv[1]), durable="--quick" not in sys.argv))
