"""A turn is told from the command line what it waits for."""

import json

from tests.api.conftest import Service
from tests.command.conftest import Command


async def parked(service: Service, key: str, name: str, **fields: object) -> str:
    """A turn that waits; its id."""
    turn = await service.claimed(key)
    body = {"lease_token": turn["lease_token"], "name": name, **fields}
    assert (await service.post(f"/v1/turns/{turn['id']}/park", body)).status == 200
    return str(turn["id"])


async def test_a_turn_is_told_and_hears_it_byte_for_byte(
    running: Service, command: Command
) -> None:
    turn = await parked(running, "signal-1", "order/17 paid?")
    words = ("turns", "signal", turn, "order/17 paid?")
    payload = '{"amount":1.10,  "who": "é"}'
    status, out, err = await command(*words, "--payload", payload, "--by", "the till")
    assert (status, out, err) == (0, f"{turn} is queued.\n", "")
    status, out, err = await command(*words, "--payload", payload, "--json")
    assert json.loads(out) == {
        "turn": turn,
        "name": "order/17 paid?",
        "state": "queued",
        "duplicate": True,
    }
    status, out, err = await command(*words)
    assert (status, out) == (1, "")
    assert "409 already_signalled" in err
    claimed = await running.claim()
    assert f'"payload":{payload}'.encode() in claimed.body
    assert claimed.json["turns"][0]["history"][0]["wait"]["by"] == "the till"


async def test_what_is_no_json_is_not_sent(running: Service, command: Command) -> None:
    turn = await parked(running, "signal-2", "answer")
    status, _, err = await command("turns", "signal", turn, "answer", "--payload", "{oops}")
    assert (status, "not JSON" in err) == (2, True)
    assert (await running.get(f"/v1/turns/{turn}")).json["state"] == "parked"


async def test_an_operator_answers_nothing_that_a_person_with_the_right_was_asked(
    running: Service, command: Command
) -> None:
    asked = "sha256:" + "a" * 64
    turn = await parked(running, "signal-3", "answer", payload_hash=asked)
    status, _, err = await command("turns", "signal", turn, "answer", "--hash", asked)
    assert (status, "403 scope_missing" in err) == (1, True)
