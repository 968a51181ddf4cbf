"""Where the command line calls, and with which key: read from the environment, and never repeated."""

import json
from pathlib import Path

import pytest

from app.settings import SettingsError
from app.settings.client import load_client
from tests.settings.loading import CANARY, load

URL = "https://sinksweep.example"


def refused(
    environ: dict[str, str], *, url: str | None = None, data_dir: str | None = None
) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        load_client(environ=environ, url=url, data_dir=data_dir)
    assert CANARY not in str(caught.value)
    return {fault.path: fault.code for fault in caught.value.faults}


def test_the_flag_goes_before_the_variable() -> None:
    environ = {"SINKSWEEP_URL": URL + "/", "SINKSWEEP_KEY": CANARY}
    assert load_client(environ=environ).url == URL
    assert load_client(environ=environ, url="http://[::1]:7979/x/").url == "http://[::1]:7979/x"
    assert load_client(environ=environ).key == CANARY


def test_the_key_may_be_a_pointer_and_is_never_shown() -> None:
    Path("key").write_text(f"{CANARY}\n")
    for pointer in ("file:key", "env:MINE"):
        environ = {"SINKSWEEP_URL": URL, "SINKSWEEP_KEY": pointer, "MINE": CANARY}
        client = load_client(environ=environ)
        assert client.key == CANARY
        assert CANARY not in repr(client)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    assert refused({}) == {"SINKSWEEP_URL": "missing", "SINKSWEEP_KEY": "missing"}
    wrong = {"SINKSWEEP_URL": f"ftp://{CANARY}", "SINKSWEEP_KEY": f"{CANARY}\n"}
    assert refused(wrong) == {"SINKSWEEP_URL": "invalid", "SINKSWEEP_KEY": "invalid"}


@pytest.mark.parametrize(
    "url", ["x", "//host", "http://", "http://[::1", "http://h:x", "http://h:0"]
)
def test_what_is_no_url_is_refused(url: str) -> None:
    assert refused({"SINKSWEEP_KEY": CANARY}, url=url) == {"SINKSWEEP_URL": "invalid"}


@pytest.mark.parametrize("key", ["env:NOBODY", "file:nothing", "a b", "é"])
def test_what_is_no_key_is_refused(key: str) -> None:
    assert refused({"SINKSWEEP_KEY": key}, url=URL) == {"SINKSWEEP_KEY": "invalid"}


def test_a_folder_of_dev_has_both() -> None:
    Path("dev.json").write_text(json.dumps({"url": URL, "keys": {"admin": CANARY, "approve": "a"}}))
    assert load_client(environ={}, data_dir=".").key == CANARY
    # An administrator decides nothing: who does is named.
    assert load_client(environ={}, data_dir=".", dev_scope="approve").key == "a"
    for broken in ("[]", "{}", "no", '{"url": 1, "keys": []}'):
        Path("dev.json").write_text(broken)
        assert refused({}, data_dir=".") == {"dev.json": "file_missing"}


def test_a_service_starts_beside_what_the_command_line_needs() -> None:
    assert load(environ={"SINKSWEEP_URL": URL, "SINKSWEEP_KEY": CANARY}).port == 7979
