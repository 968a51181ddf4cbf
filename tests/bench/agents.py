"""The agents, as a process of its own: each claims some turns, seals three messages for each, and claims again.

Its task is one line of JSON on stdin. It works until it is stopped. A turn whose payload says when it was sent is
sealed empty, and how many seconds it took to come here is printed. With `trace` it is one agent that also accepts, at
a pace, and tells how long each turn took to reach it and when each was sealed.
"""

import asyncio
import json
import sys
import time
from typing import Any

import uvloop

from tests.bench.http import Caller, body_of, post

Json = dict[str, Any]
WAIT_SECONDS = 5
SAID = "a reply of about three hundred bytes, as an agent may give one " * 4


def seal_request(turn: Json, *, key: str, messages: int) -> bytes:
    """The seal of one claimed turn."""
    body = {
        "lease_token": turn["lease_token"],
        "messages": [
            {"destination": "receiver", "payload": {"n": n, "text": SAID}} for n in range(messages)
        ],
    }
    return body_of(post(f"/v1/turns/{turn['id']}/seal", key=key), json.dumps(body).encode())


def claim_request(*, key: str, agent: str, turns_max: int) -> bytes:
    """A claim that waits."""
    wish = {"queue": "bench", "agent": agent, "max_turns": turns_max, "wait_seconds": WAIT_SECONDS}
    return body_of(post("/v1/turns/claim", key=key), json.dumps(wish).encode())


async def work(task: Json, name: str) -> None:
    """One agent, for ever."""
    caller = await Caller().open(task["host"], task["port"])
    claim = claim_request(key=task["key"], agent=name, turns_max=task["turns_max"])
    while True:
        status, body = await caller.call(claim)
        now = time.monotonic()
        assert status == 200, (status, body)
        for turn in json.loads(body)["turns"]:
            messages = task["messages"]
            if sent := turn["inbound"][0]["payload"].get("sent"):
                print(now - sent, flush=True)
                messages = 0
            seal = seal_request(turn, key=task["key"], messages=messages)
            status, body = await caller.call(seal)
            assert status == 200, (status, body)


async def trace(task: Json) -> Json:
    """One turn after the other through an idle service: times in seconds of the system's monotonic clock."""
    agent = await Caller().open(task["host"], task["port"])
    provider = await Caller().open(task["host"], task["port"])
    claim = claim_request(key=task["key"], agent="traced", turns_max=1)
    sent: dict[str, float] = {}
    told: Json = {"to_agent": [], "sealed": {}}

    async def accept() -> None:
        for n in range(task["count"]):
            await asyncio.sleep(task["pause_seconds"])
            name = f"{task['name']}-{n}"
            head = post("/v1/inbound", key=task["key"], headers=f"Idempotency-Key: {name}\r\n")
            body = json.dumps({"queue": "bench", "payload": name}).encode()
            sent[name] = time.monotonic()
            status, answer = await provider.call(body_of(head, body))
            assert status == 202, (status, answer)

    async with asyncio.TaskGroup() as group:
        group.create_task(accept())
        while len(told["to_agent"]) < task["count"]:
            status, body = await agent.call(claim)
            now = time.monotonic()
            assert status == 200, (status, body)
            for turn in json.loads(body)["turns"]:
                told["to_agent"].append(now - sent[turn["inbound"][0]["payload"]])
                seal = seal_request(turn, key=task["key"], messages=1)
                began = time.monotonic()
                status, body = await agent.call(seal)
                assert status == 200, (status, body)
                told["sealed"][json.loads(body)["messages"][0]["idempotency_key"]] = began
    return told


async def main() -> None:
    """Read the task and do it."""
    task: Json = json.loads(sys.stdin.readline())
    if task.get("trace"):
        print(json.dumps(await trace(task)), flush=True)
        return
    async with asyncio.TaskGroup() as group:
        for n in range(task["agents"]):
            group.create_task(work(task, f"agent-{n}"))


if __name__ == "__main__":
    uvloop.run(main())
