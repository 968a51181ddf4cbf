"""What waits for a decision is listed, read and decided from the command line, with a key that may do nothing else."""

import base64
import json
from typing import Any

import pytest

from tests.api.conftest import Service
from tests.command.conftest import Command

TEXT = "Dear Ada,\n\x1b[31myour money\u202e is on its way."
MESSAGES = [
    {
        "destination": "loopback",
        "content_type": "text/plain",
        "payload_base64": base64.b64encode(TEXT.encode()).decode(),
    }
]


@pytest.fixture(autouse=True)
def approver(running: Service, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    """Whoever decides has a key of his own."""
    del command  # it has set the key of an administrator
    monkeypatch.setenv("SINKSWEEP_KEY", running.keys["approve"])


async def held(service: Service, key: str, **fields: Any) -> dict[str, Any]:
    turn = await service.claimed(key, queue="support")
    sealed: dict[str, Any] = (
        await service.seal(turn, MESSAGES, hold={"note": f"note of {key}"}, **fields)
    ).json
    assert sealed["state"] == "held"
    return sealed


async def test_what_waits_is_listed_with_its_hash_and_its_deadline(
    running: Service, command: Command
) -> None:
    first, second = await held(running, "list-1"), await held(running, "list-2")
    status, out, err = await command("turns", "held", "--queue", "support")
    assert (status, err) == (0, "")
    head, *lines = out.splitlines()
    assert head.split() == [
        "id",
        "state",
        "queue",
        "conversation",
        "deadline_at",
        "payload_hash",
        "note",
    ]
    assert [line.split()[0] for line in lines[:2]] == [second["turn"], first["turn"]]
    for line, sealed in zip(lines, (second, first), strict=False):
        assert sealed["payload_hash"] in line
        assert sealed["hold"]["deadline_at"] in line
    assert "note of list-2" in lines[0]
    status, out, _ = await command("turns", "held", "--queue", "support", "--limit", "1", "--json")
    assert [one["id"] for one in json.loads(out)["items"]] == [second["turn"]]


async def test_a_set_is_read_and_nothing_in_it_steers_the_terminal(
    running: Service, command: Command
) -> None:
    later = [{"payload": {"check": 1}, "delay_seconds": 60}]
    sealed = await held(running, "read-1", follow_ups=later)
    status, out, _ = await command("turns", "read", sealed["turn"])
    assert status == 0
    for told in (sealed["payload_hash"], "  | Dear Ada,", '  | {"check": 1}', "delay_seconds"):
        assert told in out
    assert "\x1b" not in out
    assert "\u202e" not in out
    status, out, _ = await command("turns", "read", sealed["turn"], "--seal", "1", "--json")
    (message,) = json.loads(out)["messages"]
    assert base64.b64decode(message["payload_base64"]) == TEXT.encode()
    status, _, err = await command("turns", "read", sealed["turn"], "--seal", "2")
    assert (status, "not_found" in err) == (1, True)


async def test_it_is_decided_once_about_what_was_read(running: Service, command: Command) -> None:
    sealed = await held(running, "decide-1")
    words = ("turns", "decide", sealed["turn"])
    status, _, err = await command(*words, "approve", "--hash", "sha256:0", "--by", "Ada")
    assert (status, "payload_changed" in err) == (1, True)
    said = ("--hash", sealed["payload_hash"], "--by", "Ada", "--comment", "fine")
    for _ in range(2):
        status, out, err = await command(*words, "approve", *said)
        assert (status, err) == (0, "")
        lines = dict(line.split(maxsplit=1) for line in out.splitlines())
        assert (lines["decision"], lines["by"], lines["comment"]) == ("approve", "Ada", "fine")
    status, _, err = await command(*words, "reject", *said)
    assert status == 1
    assert "already_decided" in err
    assert "approve" in err
    status, out, _ = await command("turns", "held", "--json")
    assert sealed["turn"] not in out


async def test_another_one_is_asked_for_with_words(running: Service, command: Command) -> None:
    sealed = await held(running, "revise-1")
    said = ("--hash", sealed["payload_hash"], "--by", "Ada", "--comment", "shorter", "--json")
    status, out, _ = await command("turns", "decide", sealed["turn"], "revise", *said)
    assert (status, json.loads(out)["state"]) == (0, "queued")
    (turn,) = (await running.claim(queue="support")).json["turns"]
    assert turn["history"][0]["decision"]["comment"] == "shorter"


async def test_an_administrator_decides_nothing(
    running: Service, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = await held(running, "admin-1")
    monkeypatch.setenv("SINKSWEEP_KEY", running.keys["admin"])
    said = ("--hash", sealed["payload_hash"], "--by", "Ada")
    status, _, err = await command("turns", "decide", sealed["turn"], "approve", *said)
    assert (status, "scope_missing" in err) == (1, True)
    assert (await command("turns", "decide", sealed["turn"], "edit", *said))[0] == 2
    assert (await command("turns", "decide", sealed["turn"], "approve", "--by", "Ada"))[0] == 2
