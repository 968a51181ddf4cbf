"""The load, as a process of its own: accepts over HTTP, from so many connections or at so many a second.

Its task is one line of JSON on stdin, its result one on stdout. `seconds` or `count` ends it. With `path` it loads
somebody else, who wants no key; with `stamp` a payload says when it was sent, by the machine's monotonic clock.
"""

import asyncio
import json
import resource
import sys
import time
from collections import deque
from typing import Any, Final

import uvloop

from tests.bench.figures import percentile
from tests.bench.http import Line, body_of, connect, post
from tests.bench.signing import PROVIDERS

Json = dict[str, Any]
GRACE_SECONDS: Final = 10.0
BODY: Final = "an inbound of about three hundred bytes, as a person or a webhook may send one " * 3


class Load:
    """Sends accepts, each with a key and a conversation of its own."""

    def __init__(self, task: Json) -> None:
        self.task = task
        headers = "" if "path" in task else "Idempotency-Key: {}\r\n"
        head = post(task.get("path", "/v1/inbound"), key=task.get("key", "none"), headers=headers)
        self.head = head.decode()
        self.name = task["name"]
        self.source = PROVIDERS[task["source"]] if "source" in task else None
        self.number = 0
        self.seconds: list[float] = []
        self.refused: dict[int, int] = {}
        self.lines: list[Line] = []
        self.late: deque[float] = deque()
        self.counting = False
        self.over = asyncio.Event()

    def request(self) -> bytes:
        """The next one."""
        self.number += 1
        name = f"{self.name}-{self.number}"
        if self.source is not None:
            return self.source(name, BODY, secret=self.task["secret"].encode())
        sent = f',"sent":{time.monotonic()}' if self.task.get("stamp") else ""
        body = f'{{"queue":"bench","conversation":"{name}","payload":{{"text":"{BODY}"{sent}}}}}'
        return body_of(self.head.format(name).encode(), body.encode())

    def answered(self, line: Line, status: int, _body: bytes) -> None:
        """Count, and go on where there is something to do."""
        now = time.monotonic()
        if status != (202 if self.source is None else 200):
            self.refused[status] = self.refused.get(status, 0) + 1
        elif self.counting:
            self.seconds.append(now - line.sent_at)
        if status == 0:
            return
        if self.late:
            line.send(self.request(), at=self.late.popleft())
        elif self.closed and not self.over.is_set():
            if self.number < self.count:
                line.send(self.request(), at=now)
            elif not any(other.busy for other in self.lines):
                self.over.set()

    async def run(self) -> Json:
        """Warm up, measure, and tell."""
        task, self.loop = self.task, asyncio.get_running_loop()
        self.closed = "rate" not in task
        self.count: float = task.get("count", float("inf"))
        self.lines = [
            await connect(task["host"], task["port"], self.answered)
            for _ in range(int(min(task["connections"], self.count)))
        ]
        self.counting = not task.get("warm_up_seconds")
        began, cpu = time.monotonic(), _cpu_seconds()
        if self.closed:
            for line in self.lines:
                line.send(self.request(), at=time.monotonic())
        else:
            self.loop.call_soon(self.tick, time.monotonic())
        if not self.counting:
            await asyncio.sleep(task["warm_up_seconds"])
            began, cpu, self.counting = time.monotonic(), _cpu_seconds(), True
        await self.until_over()
        took, used = time.monotonic() - began, _cpu_seconds() - cpu
        self.counting = False
        for line in self.lines:
            line.close()
        return {
            "accepted": len(self.seconds),
            "per_second": len(self.seconds) / took,
            "p50_ms": 1000 * percentile(self.seconds, 0.5),
            "p99_ms": 1000 * percentile(self.seconds, 0.99),
            "refused": self.refused,
            "cpu_share": used / took,
            "began": began,
        }

    async def until_over(self) -> None:
        """The time, or the count with some time to spare."""
        try:
            async with asyncio.timeout(self.task["seconds"]):
                await self.over.wait()
        except TimeoutError:
            self.over.set()

    def tick(self, at: float) -> None:
        """The next one of a pace: its time counts from when it was due, whether or not a line is free."""
        if self.over.is_set():
            return
        free = next((line for line in self.lines if not line.busy), None)
        if free is None:
            self.late.append(at)
        else:
            free.send(self.request(), at=at)
        then = at + 1 / self.task["rate"]
        self.loop.call_later(max(0.0, then - time.monotonic()), self.tick, then)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    print(json.dumps(uvloop.run(Load(json.loads(sys.stdin.readline())).run())), flush=True)
