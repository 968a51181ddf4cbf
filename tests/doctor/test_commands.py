"""The commands: what they print, how they end, and that nothing of it is a secret."""

import asyncio
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.dev.child import CHILD_ENVIRONMENT
from app.doctor import CHECKS, examine
from app.doctor.findings import Check
from tests.doctor.conftest import patient_of
from tests.system.own_postgres import OwnPostgres

ROOT = Path(__file__).parents[2]
PASSWORD = "canary-password-71"
PATH = "canary-path-82"
SECRET = "whsec_Y2FuYXJ5LXNlY3JldC0xMjM0NTY3ODkw"
HOST = "canary-host-93.invalid"

CONFIGURATION = f"""
[queues.support]
attempts_max = 3
destinations = ["crm"]

[queues.mute]
destinations = []

[destinations.crm]
kind = "webhook"
url = "https://{HOST}/{PATH}?key={PATH}"
secrets = ["env:CRM_SECRET"]

[destinations.unsigned]
kind = "webhook"
url = "http://{HOST}/{PATH}"

[destinations.here]
kind = "loopback"
"""


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def command(folder: Path, *arguments: str, files_max: int | None = None, **variables: str) -> Ended:
    """Run a command to its end in a folder, with these variables alone."""
    words = [sys.executable, "-m", "app", *arguments]
    if files_max is not None:
        words = ["sh", "-c", f'ulimit -n {files_max}; exec "$@"', "sh", *words]
    done = subprocess.run(
        words,
        cwd=folder,
        env={**CHILD_ENVIRONMENT, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    shown = done.stdout + done.stderr
    for canary in (PASSWORD, PATH, SECRET, SECRET.removeprefix("whsec_"), HOST, "Traceback"):
        assert canary not in shown, canary
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sinksweep.toml").write_text(CONFIGURATION)
    return tmp_path


URL = f"postgresql://someone:{PASSWORD}@{HOST}/x"


def test_the_configuration_is_shown_with_where_each_value_comes_from(folder: Path) -> None:
    ended = command(
        folder,
        "config",
        "show",
        DATABASE_URL=URL,
        SINKSWEEP_QUEUES__SUPPORT__LEASE_SECONDS="45",
        CRM_SECRET=SECRET,
    )
    lines = ended.out.splitlines()
    assert ended.code == 0
    for line in (
        "port = 7979",
        'database_url = "***"  # environment',
        "queues.support.attempts_max = 3  # file",
        "queues.support.lease_seconds = 45  # environment",
        "queues.support.backoff_seconds = 1.0",
        "queues.mute.destinations = []  # file",
        'destinations.crm.url = "***"  # file',
        'destinations.crm.secrets = ["env:CRM_SECRET"]  # file',
        "destinations.here.attempts_max = 12",
    ):
        assert line in lines, ended.out


def test_a_database_that_is_pointed_at_is_shown_as_its_pointer(folder: Path) -> None:
    ended = command(folder, "config", "show", "--json", DATABASE_URL="env:URL", URL=URL)
    keys = {key["key"]: (key["value"], key["from"]) for key in ended.json["keys"]}
    assert keys["database_url"] == ("env:URL", "environment")
    assert keys["queues.default.attempts_max"] == (5, "default")
    assert keys["queues.support.destinations"] == (["crm"], "file")


def test_a_configuration_that_works_is_checked_with_what_is_to_be_known(folder: Path) -> None:
    ended = command(folder, "config", "check", "--json")
    assert ended.code == 0
    assert ended.json["good"] is True
    told = {(one["path"], one["code"]) for one in ended.json["warnings"]}
    assert told == {
        ("database_url", "database_missing"),
        ("queues.mute.destinations", "queue_mute"),
        ("destinations.crm.secrets", "secret_missing"),
        ("destinations.unsigned.secrets", "unsigned"),
        ("destinations.unsigned.url", "plain_http"),
        ("destinations.here", "loopback"),
    }
    quiet = command(folder, "config", "check", DATABASE_URL=URL, CRM_SECRET=SECRET)
    assert quiet.out.endswith("The configuration can be used.\n")
    assert "secret_missing" not in quiet.out


def test_what_opens_too_much_is_told(folder: Path) -> None:
    (folder / "sinksweep.toml").write_text(
        '[database]\nallow_unsafe = true\n[network]\nallow = ["0.0.0.0/0"]\n'
        '[queues.default]\ndestinations = ["a"]\n'
        '[destinations.a]\nkind = "loopback"\n[destinations.b]\nkind = "loopback"\n'
    )
    told = {one["code"] for one in command(folder, "config", "check", "--json").json["warnings"]}
    assert told >= {"unsafe_allowed", "network_open", "destination_unused"}


@pytest.mark.parametrize("arguments", [("config", "check"), ("config", "show"), ("doctor",)])
def test_everything_that_is_wrong_is_a_line_and_ends_with_2(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    wrong = f'nonsense = "{PASSWORD}"\n[queues.support]\nattempts_max = 0\n'
    (folder / "sinksweep.toml").write_text(wrong)
    ended = command(folder, *arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert {line.partition(":")[0] for line in ended.err.splitlines()} == {
        "nonsense",
        "queues.support.attempts_max",
    }


def test_what_is_wrong_is_told_to_programs_too(folder: Path) -> None:
    (folder / "sinksweep.toml").write_text("nonsense = 1\n")
    ended = command(folder, "config", "check", "--json")
    assert ended.code == 2
    assert ended.json["good"] is False
    assert [fault["code"] for fault in ended.json["faults"]] == ["unknown_name"]


def test_a_queue_with_holds_that_nobody_hears_of_is_refused_and_could_be_served(
    folder: Path,
) -> None:
    text = '[queues.support]\nhold = "always"\n[destinations.a]\nkind = "loopback"\n'
    (folder / "sinksweep.toml").write_text(text)
    ended = command(folder, "config", "check", "--json")
    assert (ended.code, ended.json["good"]) == (2, False)
    assert [(one["path"], one["code"]) for one in ended.json["faults"]] == [
        ("queues.support.escalate_to", "nobody_told")
    ]
    # What reads it to work with it takes it as it is.
    assert command(folder, "config", "show").code == 0
    whole = text.replace('always"\n', 'always"\nescalate_to = "a"\n')
    (folder / "sinksweep.toml").write_text(whole)
    assert command(folder, "config", "check").code == 0


def test_the_doctor_needs_a_database_to_look_at(folder: Path) -> None:
    ended = command(folder, "doctor")
    assert (ended.code, ended.out) == (2, "")
    assert "DATABASE_URL" in ended.err


def test_the_doctor_says_what_is_wrong_and_what_to_do(folder: Path) -> None:
    ended = command(folder, "doctor", DATABASE_URL=URL)
    assert ended.code == 1
    assert re.search(r"^FAIL +connection +The database cannot be reached", ended.out, re.MULTILINE)
    assert re.search(r"^FAIL +destinations .*crm.*dns_failed", ended.out, re.MULTILINE)
    assert re.search(r"^FAIL +secrets .*env:CRM_SECRET", ended.out, re.MULTILINE)
    assert "skip  commit_latency" in ended.out
    assert "things are wrong" in ended.out
    assert "->" in ended.out


async def test_a_server_that_is_well_is_well_for_programs(
    durable: OwnPostgres, tmp_path: Path
) -> None:
    ended = await asyncio.to_thread(
        command, tmp_path, "doctor", "--json", "--no-network", DATABASE_URL=durable.url
    )
    report = ended.json
    wrong = [check for check in report["checks"] if check["level"] == "wrong"]
    # Where its files lie is not the test's to choose.
    assert [check["code"] for check in wrong if check["code"] not in _OF_THE_DISK] == []
    assert (ended.code == 0) is (not wrong) is report["good"]
    assert [check["code"] for check in report["checks"]] == [check.code for check in CHECKS]


_OF_THE_DISK = {"file_system", "disk_space", "commit_latency"}


async def test_without_a_database_of_its_own_it_looks_at_that_of_dev_in_the_folder(
    durable: OwnPostgres, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dev.json").write_text(json.dumps({"database_url": durable.url}))
    ended = await asyncio.to_thread(command, tmp_path, "doctor", "--json", "--no-network")
    assert "sinksweep dev" in ended.err
    assert ended.json["checks"][0]["level"] == "good"


async def test_the_doctor_changes_nothing(durable: OwnPostgres, tmp_path: Path) -> None:
    connection = await asyncpg.connect(durable.url)
    rows = (
        "select sum(n_tup_ins + n_tup_upd + n_tup_del) from pg_stat_user_tables"
        " where schemaname = 'sink'"
    )
    try:
        before = await connection.fetchval(rows)
        await asyncio.to_thread(command, tmp_path, "doctor", DATABASE_URL=durable.url)
        await connection.execute("select pg_stat_clear_snapshot()")
        assert await connection.fetchval(rows) == before
        assert (
            await connection.fetchval(
                "select count(*) from pg_tables where tablename like '%doctor%'"
            )
            == 0
        )
    finally:
        await connection.close()


async def test_few_open_files_are_told(durable: OwnPostgres, tmp_path: Path) -> None:
    def look() -> Any:
        ended = command(tmp_path, "doctor", "--json", files_max=500, DATABASE_URL=durable.url)
        return {check["code"]: check for check in ended.json["checks"]}

    check = (await asyncio.to_thread(look))["open_files"]
    assert check["level"] == "warning"
    assert "500 files" in check["findings"][0]["text"]


def test_the_page_names_every_check_in_its_order() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text()
    told = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert told == [check.code for check in CHECKS]


async def test_a_check_that_cannot_be_made_keeps_no_other_from_being_made(
    durable: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_patient: object) -> list[Any]:
        raise RuntimeError(PASSWORD)

    made = [check.code for check in CHECKS]
    checks = tuple(
        Check(check.code, broken, check.needs) if check.code == "bloat" else check
        for check in CHECKS
    )
    monkeypatch.setattr("app.doctor.CHECKS", checks)
    async with patient_of(durable.url) as opened:
        examined = {one.code: one for one in await examine(opened)}
    assert list(examined) == made
    (finding,) = examined["bloat"].findings
    assert finding.text == "This could not be looked at: RuntimeError."
    assert PASSWORD not in f"{examined}"
