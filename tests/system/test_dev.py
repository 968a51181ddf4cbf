"""`sinksweep dev` as a person meets it: from an empty folder to Ctrl-C, with everything that can be wrong between."""

import asyncio
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from app.domain.scopes import SCOPES
from tests.system.processes import (
    POLL_SECONDS,
    STEP_SECONDS_MAX,
    Finished,
    Json,
    Service,
    until_gone,
)
from tests.system.rig import Rig


@pytest.fixture
async def folder(tmp_path: Path, session: aiohttp.ClientSession) -> AsyncIterator[Rig]:
    """An empty folder, without any database."""
    opened = Rig(tmp_path, "", "", session)
    try:
        yield opened
    finally:
        await opened.close()


MISSPELT = """
[limits]
messages_max = 0
[destinations.a]
kind = "webhok"
[destinations.b]
kind = "webhook"
url = "ftp://b/"
[destinations.c]
kind = "webhook"
ulr = "http://c/"
"""


def described(rig: Rig) -> Json:
    """What dev wrote about itself."""
    content: Json = json.loads((rig.folder / "data" / "dev.json").read_text())
    return content


async def start(rig: Rig, name: str, *options: str, **environment: str) -> Service:
    """Start dev and wait until it has said where it is."""
    known = {key: value for key, value in rig.environment.items() if key != "DATABASE_URL"}
    command = [sys.executable, "-m", "app", "dev", "--port", "0", *options]
    service = Service(name, command, {**known, **environment}, rig.folder, session=rig.session)
    rig.programs.append(service)
    await service.start()
    async with asyncio.timeout(STEP_SECONDS_MAX):
        description = rig.folder / "data" / "dev.json"
        while not description.exists() or described(rig)["pid"] != service.pid:
            assert service.process is not None
            assert service.process.returncode is None, service.tail()
            await asyncio.sleep(POLL_SECONDS)
    service.url = described(rig)["url"]
    service.key = described(rig)["keys"]["admin"]
    await service.ready()
    return service


def postgres_pid(rig: Rig) -> int:
    """The server that dev brought along."""
    (file,) = (rig.folder / "data").glob("pg*/postmaster.pid")
    return int(file.read_text().splitlines()[0])


async def test_dev_starts_from_nothing_and_keeps_keys_and_data_over_a_kill_and_a_restart(
    folder: Rig,
) -> None:
    first = await start(folder, "first")
    file = folder.folder / "data" / "dev.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    told = described(folder)
    assert told.keys() == {"url", "keys", "database_url", "pid"}
    assert told["keys"].keys() == set(SCOPES)
    assert told["url"].startswith("http://127.0.0.1:")

    accept, agent = told["keys"]["accept"], told["keys"]["agent"]
    body = {"conversation": "ada", "payload": {"text": "hello"}}
    accepted = await first.post("/v1/inbound", body, key=accept, idempotency_key="hello-1")
    assert accepted.status == 202
    assert (await first.post("/v1/turns/claim", {}, key=accept)).status == 403

    second = await dev(folder)
    assert second.code == 1
    assert f"(pid {first.pid}) already runs on" in second.err
    assert "SINKSWEEP_DATA_DIR" in second.err
    assert described(folder) == told

    server = postgres_pid(folder)
    await first.kill()
    await until_gone(server)
    again = await start(folder, "again")
    assert described(folder)["keys"] == told["keys"]
    repeated = await again.post("/v1/inbound", body, key=accept, idempotency_key="hello-1")
    assert repeated.status == 200
    assert repeated.json == {**accepted.json, "duplicate": True}

    # The destination that dev brings along: a whole story without a receiver.
    wish = {"queue": "default", "agent": "me", "wait_seconds": 5}
    (turn,) = (await again.post("/v1/turns/claim", wish, key=agent)).json["turns"]
    message = {"destination": "loopback", "payload": {"text": "hi"}}
    seal = {"lease_token": turn["lease_token"], "messages": [message]}
    assert (await again.post(f"/v1/turns/{turn['id']}/seal", seal, key=agent)).status == 200
    seen = await again.get(f"/v1/turns/{turn['id']}?wait=replied&timeout_seconds=10", key=agent)
    assert seen.json["state"] == "replied"

    server = postgres_pid(folder)
    os.killpg(again.pid, signal.SIGINT)
    assert await again.exit_code() == 0
    await until_gone(server)
    assert "Stopped. Everything that was accepted is kept." in again.log.read_text()
    assert "Traceback" not in again.log.read_text() + first.log.read_text()


async def dev(rig: Rig, *options: str, **environment: str) -> Finished:
    """Run dev where it is expected to refuse."""
    return await rig.run("dev", "--port", "0", *options, **{"DATABASE_URL": "", **environment})


async def test_dev_uses_the_server_of_database_url_and_leaves_it_running(
    folder: Rig, database_url: str
) -> None:
    allow = {"SINKSWEEP_DATABASE__ALLOW_UNSAFE": "true"}
    service = await start(folder, "dev", DATABASE_URL=database_url, **allow)
    assert described(folder)["database_url"] == database_url
    assert list((folder.folder / "data").glob("pg*")) == []
    assert "DATABASE_URL" in service.log.read_text()
    accept = described(folder)["keys"]["accept"]
    answer = await service.post("/v1/inbound", {"payload": 1}, key=accept, idempotency_key="k")
    assert answer.status == 202
    taken = await folder.run(
        *("dev", "--port", service.url.rpartition(":")[2], "--data-dir", "other"),
        DATABASE_URL=database_url,
    )
    assert taken.code == 1
    assert taken.err.splitlines()[-1].startswith("sinksweep: port: 127.0.0.1:")
    service.signal(signal.SIGTERM)
    service.signal(signal.SIGTERM)
    assert await service.exit_code() == 0


@pytest.mark.parametrize(
    ("text", "environment", "options", "code", "said"),
    [
        ("", {"SINKSWEEP_HOST": "0.0.0.0"}, (), 1, ["loopback only, and '0.0.0.0' is not"]),
        ("", {"SINKSWEEP_PRT": "1"}, (), 2, ["SINKSWEEP_PRT: unknown name, did you mean port?"]),
        (
            '[sweeep]\n[queues.a]\npush_url = "https://a.example"\n[sources.s]\nkind = "stripe"\n',
            {},
            (),
            2,
            [
                "sweeep: unknown name, did you mean sweep?",
                "queues.a.push_url: this feature is not built yet (not_supported)",
                "sources.s.secrets: this kind verifies with a secret, and none is given (missing)",
            ],
        ),
        (
            MISSPELT,
            {},
            (),
            2,
            [
                "limits.messages_max: must be at least 1 (invalid)",
                "destinations.a.kind: unknown name, did you mean webhook?",
                "destinations.b.url: a URL that begins with https:// or http:// is needed",
                "destinations.c.url: this key is needed (missing)",
                "destinations.c.ulr: unknown name, did you mean url?",
            ],
        ),
        (
            "",
            {"SINKSWEEP_DATA_DIR": "sinksweep.toml/data"},
            (),
            1,
            ["data cannot be used (Not a dir"],
        ),
        ("not toml", {}, (), 2, ["sinksweep.toml"]),
        ("", {}, ("--config", "nowhere.toml"), 2, ["nowhere.toml"]),
    ],
)
async def test_what_is_configured_wrong_stops_the_start_with_clear_lines(
    folder: Rig,
    text: str,
    environment: dict[str, str],
    options: tuple[str, ...],
    code: int,
    said: list[str],
) -> None:
    folder.configure(text)
    refused = await dev(folder, *options, **environment)
    assert refused.code == code
    for words in said:
        assert words in refused.err
    assert "Traceback" not in refused.err
    assert "Starting Postgres" not in refused.out
    assert not (folder.folder / "data" / "dev.json").exists()


async def test_a_postgres_that_is_killed_ends_dev_with_one_clear_line(folder: Rig) -> None:
    service = await start(folder, "dev")
    os.kill(postgres_pid(folder), signal.SIGKILL)
    assert await service.exit_code() == 1
    last = service.log.read_text().splitlines()[-1]
    assert last.startswith("sinksweep: the embedded Postgres has ended by signal 9; ")
    assert "Traceback" not in service.log.read_text()
    again = await start(folder, "again")
    assert await again.stop() == 0


async def test_whoever_comes_without_dev_json_gets_keys_in_place_of_those_before(
    folder: Rig, database_url: str
) -> None:
    environment = {"DATABASE_URL": database_url, "SINKSWEEP_DATABASE__ALLOW_UNSAFE": "true"}
    for name in ("first", "second"):
        service = await start(folder, name, **environment)
        assert await service.stop() == 0
        (folder.folder / "data" / "dev.json").unlink()
    listed = await folder.run("keys", "list", DATABASE_URL=database_url)
    assert listed.out.count("  active  ") == listed.out.count("  revoked  ") == len(SCOPES)
