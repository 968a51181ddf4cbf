"""What people on call do from the command line, as they do it over HTTP: with a key, its scopes, and its name."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from app.domain.ids import MESSAGE_PREFIX, TURN_PREFIX
from app.domain.model import Settlement, Slots, Verdict
from app.engine.settle import settle
from app.engine.take import take
from app.workers.operations import work_on_operations
from tests.api.conftest import Service
from tests.command.conftest import Command

MESSAGE = {"destination": "loopback", "payload": 1}


@pytest.fixture(autouse=True)
async def emptied(running: Service) -> None:
    """Nothing is left of the test before."""
    for path in ("turns", "outbox"):
        await running.post(f"/v1/{path}/bulk", {"verb": "cancel", "filter": {"all": True}})
    await work_on_operations(running.core)


async def failed(service: Service, key: str, **fields: Any) -> str:
    turn = await service.claimed(key, **fields)
    body = {"lease_token": turn["lease_token"], "reason": "no", "final": True}
    await service.post(f"/v1/turns/{turn['id']}/release", body)
    return str(turn["id"])


async def test_turns_are_listed_for_people_and_for_programs(
    running: Service, command: Command
) -> None:
    turns = [
        (await running.accept(f"list-{n}", conversation="listed")).json["turn"] for n in range(3)
    ]
    status, out, err = await command("turns", "list", "--conversation", "listed")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split()[:3] == ["id", "state", "queue"]
    assert [line.split()[:2] for line in lines[1:]] == [
        [turns[2], "waiting"],
        [turns[1], "waiting"],
        [turns[0], "queued"],
    ]
    status, out, err = await command(
        "turns", "list", "--conversation", "listed", "--limit", "2", "--json"
    )
    assert status == 0
    assert [one["id"] for one in json.loads(out)["items"]] == turns[:0:-1]
    assert json.loads(out)["more"] is True
    status, out, err = await command("turns", "list", "--conversation", "listed", "--limit", "1")
    assert "more than these 1" in err


async def test_a_list_goes_on_over_pages_that_hold_nothing(
    running: Service, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.command.remote.PAGE_MAX", 2)
    turns = [(await running.accept(f"page-{n}", queue="support")).json["turn"] for n in range(5)]
    status, out, _ = await command(
        "turns", "list", "--queue", "support", "--state", "queued", "--json"
    )
    assert status == 0
    assert [one["id"] for one in json.loads(out)["items"]] == turns[::-1]


async def test_a_turn_is_shown_with_its_messages_and_its_story(
    running: Service, command: Command
) -> None:
    turn = await running.claimed("show-1")
    sealed = (await running.seal(turn, [MESSAGE])).json
    status, out, _ = await command("turns", "show", turn["id"], "--events")
    assert status == 0
    assert "sealed" in out
    assert sealed["messages"][0]["id"] in out
    assert next(line.split()[-1] for line in out.splitlines() if " claim " in line) == "agent-1"
    status, out, _ = await command("turns", "show", turn["id"], "--json")
    assert json.loads(out) == (await running.get(f"/v1/turns/{turn['id']}")).json


async def test_what_a_stranger_wrote_does_not_steer_the_terminal(
    running: Service, command: Command
) -> None:
    await running.accept("bell", conversation="right\u202eleft")
    status, out, _ = await command("turns", "list", "--key", "bell")
    assert status == 0
    assert "right?left" in out


async def test_turns_are_cancelled_and_redriven_each_alone(
    running: Service, command: Command
) -> None:
    turns = [await failed(running, f"verbs-{n}") for n in range(2)]
    nobodys = f"{TURN_PREFIX}{'0' * 26}"
    status, out, err = await command("turns", "redrive", turns[0], nobodys, turns[1])
    assert status == 1
    assert out.splitlines() == [f"{turn} is queued." for turn in turns]
    assert err.splitlines() == [
        f"sinksweep: {nobodys}: There is no such thing, or the key may not see it. (404 not_found)"
    ]
    status, out, err = await command("turns", "redrive", turns[0])
    assert (status, err) == (0, "")
    status, out, err = await command("turns", "cancel", turns[0], "--json")
    assert json.loads(out) == {"items": [{"turn": turns[0], "state": "cancelled"}]}
    status, out, err = await command("turns", "redrive", turns[0])
    assert status == 1
    assert "It is cancelled." in err
    assert "409 not_redrivable" in err


async def test_messages_are_listed_shown_and_put_right(running: Service, command: Command) -> None:
    turn = await running.claimed("outbox-1")
    sealed = (await running.seal(turn, [MESSAGE])).json
    (message,) = [one["id"] for one in sealed["messages"]]
    status, out, _ = await command("outbox", "list", "--turn", turn["id"], "--state", "pending")
    assert status == 0
    assert out.splitlines()[1].split()[:3] == [message, "pending", "loopback"]
    status, out, _ = await command("outbox", "show", message)
    assert status == 0
    assert "idempotency_key" in out
    assert "payload" not in out
    status, _, err = await command("outbox", "resolve", message, "--as", "delivered")
    assert (status, "409 not_resolvable" in err) == (1, True)
    status, _, err = await command("outbox", "resend", message)
    assert (status, "409 not_resendable" in err) == (1, True)
    status, _, err = await command("outbox", "redrive", message)
    assert (status, "409 not_redrivable" in err) == (1, True)
    status, out, _ = await command("outbox", "cancel", message)
    assert (status, out) == (0, f"{message} is cancelled.\n")


async def test_all_that_match_are_counted_changed_and_watched(
    running: Service, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.command.bulk.POLL_SECONDS", 0.01)
    turns = [await failed(running, f"bulk-{n}", queue="open") for n in range(3)]
    chosen = ("--queue", "open", "--state", "failed", "--with-reason", "no")
    status, out, _ = await command("turns", "bulk", "redrive", *chosen, "--dry-run")
    assert (status, out) == (0, "3 would be worked on.\n")
    status, out, _ = await command("turns", "bulk", "redrive", *chosen, "--dry-run", "--json")
    assert json.loads(out) == {"dry_run": True, "found": 3, "more": False}
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(
            command("turns", "bulk", "redrive", *chosen, "--reason", "why", "--wait")
        )
        while not watching.done():
            await work_on_operations(running.core)
            await asyncio.sleep(0.02)
    status, out, _ = watching.result()
    assert status == 0
    assert "is running" in out or "done" in out
    assert "changed     3" in out
    for turn in turns:
        assert (await running.get(f"/v1/turns/{turn}")).json["state"] == "queued"
    status, out, _ = await command("operations", "list", "--limit", "1")
    assert out.splitlines()[1].split()[1:4] == ["done", "redrive", "turn"]


async def test_what_was_delivered_is_sent_once_more_by_its_destination_and_its_time(
    running: Service, command: Command
) -> None:
    messages = []
    for key in ("before", "after"):
        turn = await running.claimed(key)
        sealed = await running.seal(turn, [MESSAGE])
        (taken,) = (await take(running.core.pool, [Slots("loopback", 1, 30.0)])).messages
        verdict = Verdict("delivered")
        await settle(running.core.pool, [Settlement(taken.message, taken.attempt_id, verdict)])
        messages.append(sealed.json["messages"][0]["id"])
    ended = [
        (await running.get(f"/v1/outbox/{message}")).json["attempt_log"][0]["ended_at"]
        for message in messages
    ]
    chosen = ("--destination", "loopback", "--delivered-before", ended[1], "--json")
    status, out, _ = await command("outbox", "bulk", "resend", *chosen)
    assert status == 0
    await work_on_operations(running.core)
    status, out, _ = await command("operations", "show", json.loads(out)["id"], "--json")
    assert (json.loads(out)["state"], json.loads(out)["changed"]) == ("done", 1)
    status, out, _ = await command("outbox", "resend", messages[0])
    assert (status, out) == (0, f"{messages[0]} will be sent once more.\n")


async def test_an_operation_is_shown_and_stopped(command: Command) -> None:
    status, out, _ = await command(
        "outbox", "bulk", "resolve", "--as", "cancelled", "--everything", "--json"
    )
    assert status == 0
    operation = json.loads(out)
    assert operation["filter"] == {"all": True}
    status, out, _ = await command("operations", "cancel", operation["id"])
    assert (status, out) == (0, f"{operation['id']} is cancelled.\n")
    status, out, _ = await command("operations", "show", operation["id"], "--json")
    assert json.loads(out)["state"] == "cancelled"
    # What was stopped has not done all that it was to.
    status, out, _ = await command("operations", "show", operation["id"], "--wait")
    assert status == 1


async def test_what_bulk_is_about_is_said_with_its_own_options(command: Command) -> None:
    status, out, err = await command("turns", "bulk", "redrive")
    assert (status, out, err) == (2, "", "sinksweep: what? Give a filter, or --everything\n")
    status, out, err = await command("outbox", "bulk", "resolve", "--everything")
    assert (status, out) == (2, "")
    assert "--as delivered" in err
    status, out, _ = await command(
        "outbox", "bulk", "redrive", "--state", "dead,unknown", "--json", "--dry-run"
    )
    assert (status, json.loads(out)["found"]) == (0, 0)
    status, _, err = await command("outbox", "bulk", "redrive", "--state", "lost")
    assert status == 1
    assert err == "sinksweep: /filter/state: there is no such state (422 state_unknown)\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--all",), "Everything"),
        (("--queue", "support"), "The queue support"),
        (("--destination", "crm"), "The destination crm"),
    ],
)
async def test_what_is_stopped_goes_on_again(
    command: Command, words: tuple[str, ...], said: str
) -> None:
    status, out, _ = await command("pause", *words, "--reason", "the model is down")
    assert (status, out) == (0, f"{said} is paused.\n")
    status, out, _ = await command("resume", *words)
    assert status == 0
    assert out.startswith(f"{said} goes on")


async def test_queues_sources_and_destinations_are_listed_with_what_stops_them(
    command: Command,
) -> None:
    await command("pause", "--queue", "support")
    for name, one, state in (
        ("queues", "support", "paused"),
        ("queues", "open", "open"),
        ("sources", "api", "open"),
        ("destinations", "crm", "open"),
    ):
        status, out, err = await command(name, "list")
        assert (status, err) == (0, "")
        assert out.split()[:2] == ["name", "state"]
        (line,) = [line for line in out.splitlines() if line.startswith(f"{one} ")]
        assert line.split()[1] == state
    await command("pause", "--all")
    status, out, err = await command("destinations", "list", "--json")
    assert json.loads(out)["everything_paused"]["at"]
    status, out, err = await command("destinations", "list")
    assert err.startswith("sinksweep: everything is paused since ")
    for words in (("--all",), ("--queue", "support")):
        assert (await command("resume", *words))[0] == 0


async def test_a_queue_that_is_not_there_is_not_stopped(command: Command) -> None:
    status, out, err = await command("pause", "--queue", "sup/port")
    assert (status, out) == (1, "")
    assert err.endswith("(404 not_found)\n")


async def test_a_key_does_what_its_scopes_allow(
    running: Service, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SINKSWEEP_KEY", running.keys["read"])
    status, _, err = await command("outbox", "cancel", f"{MESSAGE_PREFIX}{'0' * 26}")
    assert (status, "403 scope_missing" in err) == (1, True)
    assert running.keys["read"] not in err


async def test_the_key_may_be_a_pointer(
    running: Service, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.write_text(running.keys["read"] + "\n")
    monkeypatch.setenv("SINKSWEEP_KEY", f"file:{file}")
    assert (await command("turns", "list"))[0] == 0
    monkeypatch.setenv("SINKSWEEP_KEY", "file:/nowhere")
    status, _, err = await command("turns", "list")
    assert (status, "its pointer leads to nothing" in err) == (2, True)


async def test_a_running_dev_is_found_by_its_folder(
    running: Service, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SINKSWEEP_URL")
    monkeypatch.delenv("SINKSWEEP_KEY")
    known = {"url": running.url, "keys": {"admin": running.keys["admin"]}}
    (tmp_path / "dev.json").write_text(json.dumps(known))
    assert (await command("turns", "list", "--data-dir", str(tmp_path)))[0] == 0
    status, _, err = await command("turns", "list", "--data-dir", str(tmp_path / "none"))
    assert (status, "no `sinksweep dev`" in err) == (2, True)


@pytest.mark.parametrize(
    ("url", "status", "said"),
    [
        ("http://127.0.0.1:1", 1, "http://127.0.0.1:1 does not answer"),
        ("", 2, "SINKSWEEP_URL: where the service is"),
        ("localhost:7979", 2, "SINKSWEEP_URL: a URL like"),
        ("http://[::1", 2, "SINKSWEEP_URL: a URL like"),
    ],
)
async def test_a_service_that_is_not_there_is_said_in_a_line(
    command: Command, monkeypatch: pytest.MonkeyPatch, url: str, status: int, said: str
) -> None:
    monkeypatch.setenv("SINKSWEEP_URL", url)
    ended, out, err = await command("turns", "list")
    assert (ended, out) == (status, "")
    assert said in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("turns",),
        ("turns", "cancel"),
        ("turns", "list", "--limit", "0"),
        ("turns", "bulk", "resend", "--everything"),
        ("outbox", "resolve", "msg_1"),
        ("outbox", "resolve", "msg_1", "--as", "dead"),
        ("pause",),
        ("pause", "--all", "--queue", "q"),
    ],
)
async def test_how_it_is_called_is_said_by_status_two(
    command: Command, words: tuple[str, ...]
) -> None:
    status, out, err = await command(*words)
    assert (status, out) == (2, "")
    assert "usage: sinksweep" in err


async def test_what_is_no_answer_of_this_service_is_not_taken_for_one(
    running: Service, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SINKSWEEP_URL", f"{running.url}/metrics?x=")
    status, out, err = await command("turns", "list")
    assert (status, out) == (1, "")
    assert "which is not how this service answers" in err
