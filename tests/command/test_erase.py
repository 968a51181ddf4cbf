"""A conversation is erased from the command line, in as many calls as it takes."""

import json

import pytest

from tests.api.conftest import Service
from tests.command.conftest import Command

ERASE = ("erase", "--queue", "default", "--conversation")


async def test_a_conversation_is_erased_in_as_many_calls_as_it_takes(
    running: Service, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TURNS_MAX", "STEPS_MAX"):
        monkeypatch.setattr(f"app.engine.erase.{name}", 2)
    turns = [await running.claimed(f"e{n}", conversation=f"lane-{n}") for n in range(1)]
    for n in range(9):
        turn = await running.claimed(f"erase-{n}", conversation="ann")
        await running.seal(turn, [])
    status, out, err = await command(*ERASE, "ann")
    assert (status, err) == (0, "")
    assert out.startswith("Erased: 9 turns, 9 inbound, 9 attempts, 0 messages, 27 events")
    status, out, _ = await command(*ERASE, "ann", "--json")
    assert (status, json.loads(out)["turns"]) == (0, 0)
    assert (await running.get(f"/v1/turns/{turns[0]['id']}")).status == 200


async def test_what_lives_is_refused_in_one_line_unless_it_may_be_cancelled(
    running: Service, command: Command
) -> None:
    await running.accept("live-1", conversation="bob")
    status, out, err = await command(*ERASE, "bob")
    assert (status, out) == (1, "")
    assert "409 conversation_live" in err
    status, out, _ = await command(*ERASE, "bob", "--cancel")
    assert status == 0
    assert "1 turns" in out
