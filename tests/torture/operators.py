"""People on call who look at turns and cancel, redrive and resolve, sometimes twice, sometimes for no good reason."""

import asyncio
import json
import random
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.history.log import Asked, Log, Told, now
from tests.torture.provider import Ledger

ANSWER_SECONDS_MAX = 6.0
PAUSE_SECONDS = 0.15
EXPECTED = {None, 200, 409, 503}

Json = dict[str, Any]


@dataclass(slots=True)
class Operator:
    """One person. `answers` counts what came of each verb."""

    name: str
    urls: list[str]
    ledger: Ledger
    log: Log
    rng: random.Random
    answers: Counter[str] = field(default_factory=Counter)

    async def work(self, go_on: Callable[[], bool]) -> None:
        """Look at one turn after the other, and do something where there is something to do."""
        while go_on():
            await asyncio.sleep(PAUSE_SECONDS * (0.5 + self.rng.random()))
            if self.ledger.turns:
                turn = self.rng.choice(self.ledger.turns)
                status, seen = await self._call("GET", f"/v1/turns/{turn}", None)
                if status == 200:
                    await self.decide(turn, seen)

    async def decide(self, turn: str, seen: Json) -> None:
        """What somebody does who sees a turn like this."""
        chance = self.rng.random()
        for message in seen["messages"]:
            match message["state"]:
                case "unknown" if chance < 0.5:
                    found = self.rng.choice(("delivered", "cancelled"))
                    await self.do("resolve", turn, message["id"], body={"state": found})
                case "dead" | "unknown" if chance < 0.9:
                    await self.do("redrive_message", turn, message["id"])
                case "delivered" if 0.5 < chance < 0.55:
                    await self.do("resend", turn, message["id"])
                case "dead" | "pending" | "sending" if chance > 0.9:
                    await self.do("cancel_message", turn, message["id"])
                case _:
                    pass
        match seen["state"]:
            case "failed" | "undelivered" if chance < 0.8:
                await self.do("redrive", turn)
            case _ if chance > 0.93:
                await self.do("cancel", turn)
            case _ if chance < 0.02:
                await self.do("redrive", turn)
            case _:
                pass

    async def do(
        self, verb: str, turn: str, message: str | None = None, *, body: Json | None = None
    ) -> None:
        """Do it, and sometimes once more: a double click."""
        word = verb.removesuffix("_message")
        path = f"/v1/turns/{turn}/{word}" if message is None else f"/v1/outbox/{message}/{word}"
        for _ in range(2 if self.rng.random() < 0.15 else 1):
            call = secrets.token_hex(8)
            self.log(
                Asked(
                    call=call,
                    at=now(),
                    agent=self.name,
                    verb=verb,
                    replica=self.urls[0],
                    turn=turn if message is None else None,
                    message=message,
                    request=json.dumps(body or {}),
                )
            )
            status, answer = await self._call("POST", path, body or {})
            told = Told(
                call=call,
                at=now(),
                status=status,
                state=answer.get("state"),
                code=answer.get("code"),
            )
            self.log(told)
            self.answers[f"{verb} {status}"] += 1
            if status not in EXPECTED:
                self.ledger.findings.append(f"{path}: {status} {answer}")

    async def stop_and_go(self, go_on: Callable[[], bool], *, subjects: Sequence[str]) -> None:
        """Pause one of these for a moment, again and again. Whatever was paused goes on in the end."""
        while go_on():
            await asyncio.sleep(1.0 + self.rng.random())
            subject = self.rng.choice(subjects)
            await self._switch("pause", subject)
            await asyncio.sleep(0.2 + self.rng.random())
            # A pause whose answer was lost may hold as well.
            while not await self._switch("resume", subject):
                await asyncio.sleep(PAUSE_SECONDS)

    async def _switch(self, verb: str, subject: str) -> bool:
        kind, _, name = subject.partition("/")
        path = f"/v1/{kind}s/{name}/{verb}" if name else f"/v1/{verb}"
        call = secrets.token_hex(8)
        asked = Asked(call, now(), self.name, verb, replica=self.urls[0], request=subject)
        self.log(asked)
        status, answer = await self._call("POST", path, {})
        self.log(Told(call=call, at=now(), status=status, code=answer.get("code")))
        self.answers[f"{verb} {status}"] += 1
        if status not in {None, 200, 503}:
            self.ledger.findings.append(f"{path}: {status} {answer}")
        return status == 200

    async def _call(self, method: str, path: str, body: Json | None) -> tuple[int | None, Json]:
        self.urls.append(self.urls.pop(0))
        headers = {"Authorization": f"Bearer {self.ledger.key}"}
        try:
            async with (
                asyncio.timeout(ANSWER_SECONDS_MAX),
                self.ledger.session.request(
                    method, self.urls[0] + path, json=body, headers=headers
                ) as got,
            ):
                content = await got.read()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None, {}
        answer: Json = json.loads(content) if content.startswith(b"{") else {}
        return got.status, answer
