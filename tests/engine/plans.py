"""How statements run: each with its plan and the pages that it read, as Postgres tells while verbs are used."""

import json
import os
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import asyncpg

import app.engine
from app.domain.ids import IdFactory
from app.engine.database import session_settings
from app.engine.statements import load
from tests.database import Clock, Server, options_for
from tests.engine.stories import Sink
from tests.engine.suspense import OneSession

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link
    from tests.database import Admin

EXPLAIN = """
    load 'auto_explain';
    set auto_explain.log_min_duration = 0;
    set auto_explain.log_analyze = on;
    set auto_explain.log_buffers = on;
    set auto_explain.log_timing = off;
    set auto_explain.log_format = json;
    set auto_explain.log_level = notice;
    set role sinksweep_app
"""

Node = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """What one run of a statement did."""

    indexes: set[str]
    scanned: set[str]
    buffers: int


Runs = dict[str, list[Seen]]


def _nodes(plan: Node) -> Iterator[Node]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


def seen(plan: Node) -> Seen:
    nodes = list(_nodes(plan))
    # What reads a part is charged for it too; a write that nobody reads runs behind the rest.
    read = {f"CTE {node['CTE Name']}" for node in nodes if "CTE Name" in node}
    unread = {
        name for node in nodes if (name := node.get("Subplan Name", "")).startswith("CTE ")
    } - read
    tops = [plan, *(node for node in nodes if node.get("Subplan Name") in unread)]
    return Seen(
        {node["Index Name"] for node in nodes if "Index Name" in node},
        {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"},
        sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in tops),
    )


def _names() -> dict[str, str]:
    files = Path(app.engine.__file__).parent.glob("*.sql")
    return {
        statement.text: statement.name
        for file in files
        for statement in load(str(file.with_suffix(".py"))).values()
    }


async def explained(
    server: Server,
    prepare: "Callable[[Admin], Awaitable[None]]",
    story: Callable[[Sink, Clock], Awaitable[None]],
) -> Runs:
    """Every run of every statement of a story, by its name, in a database that was prepared for it."""
    names, runs = _names(), defaultdict[str, list[Seen]](list)

    def listen(_connection: object, message: Any) -> None:
        if "plan:" in message.message:
            told = json.loads(message.message.partition("plan:")[2])
            name = names.get(told["Query Text"])
            if name is not None:
                runs[name].append(seen(told["Plan"]))

    async with server.database() as url:
        admin = await asyncpg.connect(url)
        await prepare(admin)
        settings = session_settings(options_for(url), application_name="plans")
        del settings["role"]  # the library is loaded before it is taken on
        connection = await asyncpg.connect(url, server_settings=settings)
        await connection.execute(EXPLAIN)
        connection.add_log_listener(listen)
        ids = IdFactory(milliseconds=lambda: time.time_ns() // 1_000_000, random_bytes=os.urandom)
        pool = cast("Pool", OneSession(cast("Link", connection)))
        await story(Sink(pool, ids, random.Random(0)), Clock(admin))
        await connection.close()
        await admin.close()
    return dict(runs)
