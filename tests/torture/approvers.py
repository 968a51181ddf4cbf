"""People who decide about held sets, from right and stale pages, twice, at once; and events that come when they like.

Whatever waits for a person is decided in the end: a crowd that has gone leaves nothing behind that waits.
"""

import asyncio
import json
import random
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.history.log import Asked, Log, Told, encode, now
from tests.torture.provider import Ledger

ANSWER_SECONDS_MAX = 6.0
PAUSE_SECONDS = 0.15
PAGES_MAX = 50
EXPECTED = {None, 200, 409, 503}
# What agents wait for, and what they ask a person.
SIGNAL, ANSWER, QUESTION = "paid", "answer", "sha256:question"

Json = dict[str, Any]


@dataclass(slots=True)
class Approver:
    """One person, with a key that decides. `pages` are those that lie open: of a turn, and the hash that it shows."""

    name: str
    urls: list[str]
    ledger: Ledger
    key: str
    log: Log
    rng: random.Random
    answers: Counter[str] = field(default_factory=Counter)
    pages: list[tuple[str, str]] = field(default_factory=list)

    async def work(self, go_on: Callable[[], bool]) -> None:
        """Look at what waits, decide about some of it, and tell turns what has happened."""
        while go_on():
            await asyncio.sleep(PAUSE_SECONDS * (0.5 + self.rng.random()))
            waiting = await self.waiting()
            self.pages = (self.pages + waiting)[-PAGES_MAX:]
            if waiting and self.rng.random() < 0.7:
                await self.decide(*self.rng.choice(waiting))
            if self.pages and self.rng.random() < 0.3:
                # What has been open for long may have been decided, or be another set by now.
                await self.decide(*self.rng.choice(self.pages))
            if self.ledger.turns:
                await self.tell(self.rng.choice(self.ledger.turns))

    async def finish(self) -> None:
        """Let go whatever waits now."""
        for turn, shown in await self.waiting():
            await self._post_decision(turn, shown, {"decision": "approve"})

    async def waiting(self) -> list[tuple[str, str]]:
        """The turns that wait for a decision, with what each shows."""
        found: list[tuple[str, str]] = []
        for state in ("held", "escalated"):
            path = f"/v1/turns?state={state}&limit=50"
            status, answer = await self._call("GET", path, None, key=self.ledger.key)
            if status == 200:
                found += [(turn["id"], turn["payload_hash"]) for turn in answer["items"]]
        return [(turn, shown) for turn, shown in found if shown]

    async def decide(self, turn: str, shown: str) -> None:
        """Say one thing about a page; sometimes twice, and sometimes another thing at the same moment."""
        wish: Json = {
            "decision": self.rng.choice(("approve", "approve", "approve", "reject", "revise"))
        }
        if wish["decision"] == "approve" and self.rng.random() < 0.3:
            nonce = secrets.token_hex(8)
            wish["messages"] = [{"destination": "crm", "payload": {"edited": nonce}}]
        chance = self.rng.random()
        if chance < 0.15:
            other = {"decision": "reject" if wish["decision"] == "approve" else "approve"}
            async with asyncio.TaskGroup() as group:
                for one in (wish, other):
                    group.create_task(self._post_decision(turn, shown, one))
            return
        await self._post_decision(turn, shown, wish)
        if chance > 0.85:
            await self._post_decision(turn, shown, wish)

    async def _post_decision(self, turn: str, shown: str, wish: Json) -> None:
        call = secrets.token_hex(8)
        messages = wish.get("messages")
        asked = Asked(
            call=call,
            at=now(),
            agent=self.name,
            verb="decide",
            turn=turn,
            request=json.dumps(wish),
            decision=wish["decision"],
            payload_hash=shown,
        )
        self.log(asked)
        body = {**wish, "payload_hash": shown, "by": self.name}
        status, answer = await self._call("POST", f"/v1/turns/{turn}/decision", body, key=self.key)
        decided = answer if status == 200 else {}
        self.log(
            Told(
                call=call,
                at=now(),
                status=status,
                state=decided.get("state"),
                code=answer.get("code"),
                decision=decided.get("decision"),
                by=decided.get("by"),
            )
        )
        self._count("edit" if messages is not None else wish["decision"], status, answer, turn)

    async def tell(self, turn: str) -> None:
        """Tell a turn, which may wait for it, or will, or never does; sometimes twice, sometimes another thing."""
        said = json.dumps({"said": self.rng.choice(("yes", "yes", "no"))})
        name, decides = self.rng.choice(((SIGNAL, False), (ANSWER, True), (ANSWER, False)))
        body: Json = {"payload": json.loads(said)}
        if decides:
            body["payload_hash"] = QUESTION
        for _ in range(2 if self.rng.random() < 0.2 else 1):
            call = secrets.token_hex(8)
            asked = Asked(
                call=call,
                at=now(),
                agent=self.name,
                verb="signal",
                turn=turn,
                name=name,
                request=f"{said} {decides}",
                bodies_base64=(encode(said.encode()),),
            )
            self.log(asked)
            path = f"/v1/turns/{turn}/signals/{name}"
            key = self.key if decides else self.ledger.key
            status, answer = await self._call("POST", path, body, key=key)
            self.log(Told(call=call, at=now(), status=status, code=answer.get("code")))
            # Who has no right to decide is refused where a person was asked.
            if (status, name, decides) == (403, ANSWER, False):
                self.answers["answer 403"] += 1
            else:
                self._count(name, status, answer, turn)

    def _count(self, verb: str, status: int | None, answer: Json, turn: str) -> None:
        self.answers[f"{verb} {answer.get('code', status) if status == 409 else status}"] += 1
        if status not in EXPECTED:
            self.ledger.findings.append(f"{verb} of {turn}: {status} {answer}")

    async def _call(
        self, method: str, path: str, body: Json | None, *, key: str
    ) -> tuple[int | None, Json]:
        url = self.rng.choice(self.urls)
        try:
            async with (
                asyncio.timeout(ANSWER_SECONDS_MAX),
                self.ledger.session.request(
                    method, url + path, json=body, headers={"Authorization": f"Bearer {key}"}
                ) as got,
            ):
                content = await got.read()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None, {}
        answer: Json = json.loads(content) if content.startswith(b"{") else {}
        return got.status, answer
