"""Where something can wait for a person, somebody must hear of it; whoever is told has a name that exists."""

import pytest

from app.settings import silences
from tests.settings.loading import fault_line, faults, load

ONCALL = '[destinations.oncall]\nkind = "loopback"\n'


def _silent(text: str) -> dict[str, str]:
    return {fault.path: fault.code for fault in silences(load(text + ONCALL))}


@pytest.mark.parametrize(
    "key",
    [
        'hold = "always"',
        'approvers = "oncall"',
        'on_deadline = "cancel"',
        "hold_deadline_seconds = 9",
    ],
)
def test_a_queue_with_holds_that_can_escalate_to_nobody_is_told_of(key: str) -> None:
    assert _silent(f"[queues.a]\n{key}\n") == {"queues.a.escalate_to": "nobody_told"}
    assert _silent(f'[queues.a]\n{key}\nescalate_to = "oncall"\n') == {}


def test_so_is_one_that_may_use_a_destination_that_holds_everything() -> None:
    crm = '[destinations.crm]\nkind = "loopback"\nhold = "always"\n'
    for queue in ('[queues.a]\ndestinations = ["crm"]\n', "[queues.a]\nattempts_max = 3\n"):
        assert _silent(queue + crm) == {"queues.a.escalate_to": "nobody_told"}
    other = '[queues.a]\ndestinations = ["oncall"]\n'
    assert _silent(other + crm) == {}
    # The queue that nobody wrote counts where there is no other.
    assert _silent(crm) == {"queues.default.escalate_to": "nobody_told"}


def test_a_queue_without_holds_need_not_tell_anybody() -> None:
    assert _silent("[queues.a]\nattempts_max = 3\nreminder_seconds = 60\n") == {}
    assert _silent("") == {}


@pytest.mark.parametrize("key", ["escalate_to", "approvers"])
def test_whoever_is_told_has_a_destination_that_exists(key: str) -> None:
    line = fault_line(f'[queues.a]\n{key} = "oncal"\n{ONCALL}')
    assert line.startswith(f"queues.a.{key}: unknown name, did you mean oncall?")


def test_follow_ups_go_to_queues_that_exist() -> None:
    line = fault_line('[queues.a]\nfollow_up_queues = ["a", "default", "suport"]\n[queues.support]')
    assert line.startswith("queues.a.follow_up_queues.suport: unknown name, did you mean support?")
    text = '[queues.a]\nfollow_up_queues = ["a", "default"]\n'
    assert load(text).queues["a"].follow_up_queues == ("a", "default")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[queues.a]\nreminder_seconds = 86401", "queues.a.reminder_seconds"),
        (
            "[limits]\nhold_seconds_max = 86399\n[queues.default]\nhold_deadline_seconds = 86400",
            "queues.default.hold_deadline_seconds",
        ),
        ("[queues.a]\npark_seconds = 40000000", "queues.a.park_seconds"),
    ],
)
def test_times_that_exceed_their_bounds_stop_the_start(text: str, path: str) -> None:
    assert faults(text) == {path: "contradiction"}


@pytest.mark.parametrize(
    "url", ["sink.example", "ftp://sink.example", "https://a:b@sink.example", "https://x/?a=b", ""]
)
def test_a_public_address_is_one_that_a_path_can_be_put_behind(url: str) -> None:
    assert faults(f'[server]\npublic_url = "{url}"') == {"server.public_url": "invalid"}
    settings = load('[server]\npublic_url = "https://sink.example/base/"')
    assert settings.server.public_url == "https://sink.example/base"
