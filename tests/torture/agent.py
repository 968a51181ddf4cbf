"""An agent as a process of its own, that does everything an agent may do, and much that it should not.

The first line of stdin is its task, as JSON: `name`, `urls`, `key`, `queues`, `destinations`, `folder`, `seed` and
`lease_seconds`. It works until it is killed; a file named `obey` in its folder makes it behave. What it asks and what
it is told is in its log. An attempt says something that no other attempt says, as a model asked again does.
"""

import hashlib
import http.client
import json
import os
import random
import secrets
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.history.log import Asked, Given, Heard, Input, Log, Promise, Told, encode, now

CALL_SECONDS_MAX = 8.0
TRIES_MAX = 60
PAUSE_SECONDS = 0.1
WAIT_SECONDS = 2
TURNS_MAX = 3
DIED = 70

Json = dict[str, Any]

# What is done with a turn, step by step, and how often of a hundred.
WAYS: dict[tuple[str, ...], int] = {
    ("seal",): 40,
    ("seal held",): 7,
    ("seal held", "seal held"): 2,
    ("park",): 3,
    ("park", "park"): 2,
    ("ask a person",): 2,
    ("renew", "seal"): 10,
    ("seal", "seal"): 6,
    ("seal", "seal another set"): 5,
    ("seal", "go elsewhere", "seal", "go elsewhere", "seal"): 4,
    ("seal nothing",): 4,
    ("seal nonsense", "seal"): 2,
    ("outstay", "renew", "seal"): 4,
    ("die",): 2,
    ("fail",): 4,
    ("release",): 2,
    ("end",): 1,
}
CALLS: dict[str, tuple[str, Json]] = {
    "renew": ("renew", {}),
    "seal nothing": ("seal", {"messages": []}),
    "seal nonsense": ("seal", {"messages": [{"destination": "nowhere", "payload": 1}]}),
    "fail": ("fail", {"reason": "the model said no", "failed": True}),
    "release": ("release", {"reason": "not now", "delay_seconds": 0.1}),
    "end": ("fail", {"reason": "hopeless", "final": True}),
    "park": ("park", {"name": "paid", "seconds": 1}),
    "ask a person": (
        "park",
        {"name": "answer", "seconds": 1, "payload_hash": "sha256:question"},
    ),
}
HELD: Json = {"hold": {"note": "look at it", "deadline_seconds": 2}}


class Agent:
    """Claims and seals for ever."""

    def __init__(self, task: Json, log: Log) -> None:
        self.task = task
        self.log = log
        self.rng = random.Random(task["seed"])
        self.urls: list[str] = list(task["urls"])
        self.lost: list[tuple[str, str]] = []

    @property
    def obeys(self) -> bool:
        """Whether it has been told to behave."""
        return (Path(self.task["folder"]) / "obey").exists()

    def run(self) -> None:
        """Work until killed, or until whoever started it is gone."""
        parent = os.getppid()
        while os.getppid() == parent:
            for turn in self.claim():
                way: tuple[str, ...] = ("seal",)
                if not self.obeys:
                    (way,) = self.rng.choices(list(WAYS), weights=list(WAYS.values()))
                self.work(turn, way)
            if self.lost and not self.obeys and self.rng.random() < 0.1:
                # Somebody who was given up long ago comes back.
                self.end(*self.rng.choice(self.lost), "seal", self.draft("late"))

    def claim(self) -> list[Given]:
        """Ask for turns of one queue, sometimes in a way that may be repeated."""
        wish: Json = {
            "queue": self.rng.choice(self.task["queues"]),
            "agent": self.task["name"],
            "wait_seconds": self.rng.choice((0, WAIT_SECONDS)),
            "max_turns": self.rng.randint(1, TURNS_MAX),
            "lease_seconds": self.task["lease_seconds"],
        }
        repeatable = self.rng.random() < 0.5
        if repeatable:
            wish["request_id"] = secrets.token_hex(12)
        told = self.ask("claim", "/v1/turns/claim", wish)
        for _ in range(TRIES_MAX):
            if told.status is not None and told.status != 503:
                break
            time.sleep(PAUSE_SECONDS)
            if not repeatable:
                return []
            told = self.ask("claim", "/v1/turns/claim", wish)
        if repeatable and told.turns and not self.obeys and self.rng.random() < 0.1:
            self.ask("claim", "/v1/turns/claim", wish)
        return list(told.turns)

    def work(self, turn: Given, way: tuple[str, ...]) -> None:
        """Do with a turn what was chosen."""
        said = self.draft(turn.turn, turn.attempt)
        for step in way:
            match step:
                case "die":
                    os._exit(DIED)
                case "outstay":
                    time.sleep(self.task["lease_seconds"] + self.rng.random() * 2)
                case "go elsewhere":
                    self.urls.append(self.urls.pop(0))
                case "seal held":
                    self.until_told(turn.turn, turn.token, "seal", {**said, **HELD})
                case "seal":
                    self.until_told(turn.turn, turn.token, "seal", said)
                case "seal another set":
                    other = self.draft(turn.turn, turn.attempt)
                    self.until_told(turn.turn, turn.token, "seal", other)
                case _:
                    self.until_told(turn.turn, turn.token, *CALLS[step])

    def draft(self, *about: object) -> Json:
        """A set that nobody has said before."""
        messages: list[Json] = []
        for position in range(self.rng.randint(1, 3)):
            message: Json = {"destination": self.rng.choice(self.task["destinations"])}
            said = {"about": about, "position": position, "nonce": secrets.token_hex(8)}
            if self.rng.random() < 0.3:
                message["payload_base64"] = encode(json.dumps(said, indent=1).encode() + b"\n")
                message["content_type"] = "application/x-said"
            else:
                message["payload"] = said
            if self.rng.random() < 0.1 and not self.obeys:
                message["delay_seconds"] = 0.2
            messages.append(message)
        more: Json = {"order": "strict"} if self.rng.random() < 0.3 else {}
        if self.rng.random() < 0.1 and not self.obeys:
            later = {"about": about, "later": secrets.token_hex(8)}
            more["follow_ups"] = [{"payload": later, "delay_seconds": 0.2}] * self.rng.randint(1, 2)
        return {"messages": messages, **more}

    def until_told(self, turn: str, token: str, verb: str, body: Json) -> None:
        """Ask again until there is an answer that is not about the service's health."""
        for _ in range(TRIES_MAX):
            told = self.end(turn, token, verb, body)
            if told.status is not None and told.status != 503:
                if told.code == "lease_lost":
                    self.lost = [*self.lost[-20:], (turn, token)]
                return
            time.sleep(PAUSE_SECONDS)

    def end(self, turn: str, token: str, verb: str, body: Json) -> Told:
        """Renew, release, fail, park or seal, once."""
        path = f"/v1/turns/{turn}/{'release' if verb == 'fail' else verb}"
        return self.ask(verb, path, {"lease_token": token, **body}, turn=turn, token=token)

    def ask(
        self, verb: str, path: str, body: Json, *, turn: str | None = None, token: str | None = None
    ) -> Told:
        """One call at the replica of now; the next one is asked where this one does not answer."""
        call, content = secrets.token_hex(8), json.dumps(body).encode()
        messages = body.get("messages")
        self.log(
            Asked(
                call=call,
                at=now(),
                agent=self.task["name"],
                verb=verb,
                replica=self.urls[0],
                turn=turn,
                token=token,
                request=hashlib.sha256(json.dumps(messages or body).encode()).hexdigest(),
                bodies_base64=None if messages is None else tuple(map(_body, messages)),
                name=body.get("name"),
                follow_ups=len(body.get("follow_ups", ())),
            )
        )
        status, raw = self.post(path, content)
        told = _told(call, status, raw)
        self.log(told)
        if status is None or status == 503:
            self.urls.append(self.urls.pop(0))
        return told

    def post(self, path: str, content: bytes) -> tuple[int | None, bytes]:
        """Status and body; None when there was no whole answer."""
        connection = http.client.HTTPConnection(
            urlsplit(self.urls[0]).netloc, timeout=CALL_SECONDS_MAX
        )
        headers = {
            "Authorization": f"Bearer {self.task['key']}",
            "Content-Type": "application/json",
        }
        try:
            connection.request("POST", path, content, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return None, b""
        finally:
            connection.close()


def _body(message: Json) -> str:
    """What a message's payload is, in base64: as it is spelled in the request."""
    if "payload_base64" in message:
        return str(message["payload_base64"])
    return encode(json.dumps(message["payload"]).encode())


def _told(call: str, status: int | None, raw: bytes) -> Told:
    answer: Json = json.loads(raw) if raw.startswith(b"{") else {}
    messages = answer.get("messages", ()) if status == 200 else ()
    return Told(
        call=call,
        at=now(),
        status=status,
        state=answer.get("turn_state") or answer.get("state"),
        code=answer.get("code"),
        reason=answer.get("reason"),
        payload_hash=answer.get("payload_hash"),
        turns=_given(raw.decode(), answer.get("turns", ())),
        messages=tuple(Promise(m["id"], m["idempotency_key"], m["state"]) for m in messages),
        newer_inbound=answer.get("newer_inbound"),
        follow_ups=tuple(one["turn"] for one in answer.get("follow_ups", ()))
        if status == 200
        else (),
    )


def _heard(history: list[Json]) -> tuple[Heard, ...]:
    """What ended the parks of a turn. Payloads are few and plain: they are spelled as they were."""
    return tuple(
        Heard(
            entry["attempt"],
            entry["wait"]["name"],
            encode(json.dumps(entry["wait"]["payload"]).encode())
            if "payload" in entry["wait"]
            else None,
        )
        for entry in history
        if entry.get("wait") is not None
    )


def _given(text: str, turns: list[Json]) -> tuple[Given, ...]:
    """The turns of a claim's answer, their payloads exactly as they are spelled in it."""
    decoder, position, given = json.JSONDecoder(), 0, []
    for turn in turns:
        inputs = []
        # Behind the inbound of the turn before stands its history, which has payloads, too.
        position = text.index(turn["lease_token"], position)
        for inbound in turn["inbound"]:
            body = inbound.get("payload_base64")
            if "payload" in inbound:
                start = text.index('"payload":', position) + len('"payload":')
                _, position = decoder.raw_decode(text, start)
                body = encode(text[start:position].encode())
            inputs.append(Input(inbound["id"], body))
        given.append(
            Given(
                turn=turn["id"],
                token=turn["lease_token"],
                attempt=turn["attempt"],
                inbound=tuple(inputs),
                lease_seconds=turn["lease_expires_in_seconds"],
                conversation=turn["conversation"],
                heard=_heard(turn["history"]),
            )
        )
    return tuple(given)


if __name__ == "__main__":
    known = json.loads(sys.stdin.readline())
    Agent(known, Log(Path(known["folder"]) / f"agent-{known['name']}.jsonl")).run()
