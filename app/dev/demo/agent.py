"""An agent of the demo: a process of its own that needs HTTP and JSON, and nothing of this project.

Reads its task as one JSON line, tells what it does as JSON lines, and where its task says so it waits
for another line: there it can be killed, or let go.
"""

import json
import sys
import urllib.error
import urllib.request
from typing import Any, NoReturn

CALL_SECONDS_MAX = 30.0
CLAIM_WAIT_SECONDS = 20
ANSWER_BYTES_MAX = 1 << 20

# A model asked again answers something else. Which of these it is stands in the task, so that the
# story is the same each time that it is told.
SAMPLES = (
    (
        "Yes! We have the red one for 49 euro.",
        "I have put one aside for you.",
        "Shall I send it today?",
    ),
    (
        "Sorry, our waffle makers are sold out until Friday.",
        "You are first on the list for the red one, 49 euro.",
        "I will write to you as soon as it is here.",
    ),
)

Json = dict[str, Any]

# Everything here is on this machine: a proxy has no part in it.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def call(
    url: str,
    *,
    key: str | None = None,
    body: Json | None = None,
    idempotency_key: str | None = None,
) -> tuple[int, Json]:
    """POST a body, or GET without one: the status, and the answer's JSON (empty without any)."""
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    if idempotency_key is not None:
        headers["Idempotency-Key"] = idempotency_key
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)  # noqa: S310 - a URL of the demo's own
    try:
        with _direct.open(request, timeout=CALL_SECONDS_MAX) as answer:
            status, content = answer.status, answer.read(ANSWER_BYTES_MAX)
    except urllib.error.HTTPError as error:
        with error:
            status, content = error.code, error.read(ANSWER_BYTES_MAX)
    return status, json.loads(content) if content else {}


def main() -> None:
    """Do the one task that stdin gives."""
    task = json.loads(sys.stdin.readline())
    if "chat" in task:
        _speak_as_it_goes(task)
    else:
        _claim_and_seal(task)


def _speak_as_it_goes(task: Json) -> None:
    for number, text in enumerate(SAMPLES[task["sample"]], start=1):
        status, _ = call(task["chat"], body={"text": text})
        _tell("said", status=status, text=text)
        _pause(task, number)


def _claim_and_seal(task: Json) -> None:
    claim = {"queue": task["queue"], "agent": task["name"], "wait_seconds": CLAIM_WAIT_SECONDS}
    if "lease_seconds" in task:
        claim["lease_seconds"] = task["lease_seconds"]
    status, answer = call(f"{task['service']}/v1/turns/claim", key=task["key"], body=claim)
    if status != 200 or not answer["turns"]:  # noqa: PLR2004
        _give_up(f"nothing to claim: {status} {answer}")
    turn = answer["turns"][0]
    _tell(
        "claimed",
        turn=turn["id"],
        attempt=turn["attempt"],
        lease_token=turn["lease_token"],
        questions=[inbound["payload"]["text"] for inbound in turn["inbound"]],
        history=turn["history"],
    )
    messages = []
    for number, text in enumerate(SAMPLES[task["sample"]], start=1):
        messages.append({"destination": "chat", "payload": {"text": text}})
        _tell("drafted", text=text)
        _pause(task, number)
    seal = {"lease_token": turn["lease_token"], "messages": messages}
    url = f"{task['service']}/v1/turns/{turn['id']}/seal"
    status, answer = call(url, key=task["key"], body=seal)
    _tell("sealed", status=status, answer=answer)


def _tell(what: str, **details: object) -> None:
    print(json.dumps({"what": what, **details}), flush=True)


def _pause(task: Json, number: int) -> None:
    if number != task.get("pause_after"):
        return
    _tell("paused")
    if not sys.stdin.readline():
        _give_up("whoever started me has gone")


def _give_up(reason: str) -> NoReturn:
    print(reason, file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
