"""Whatever is wrong stops the start, with its path and without its value."""

from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from app.settings import (
    Destination,
    Fault,
    Queue,
    Settings,
    SettingsError,
    explain,
    load_settings,
)
from tests.settings.loading import CANARY, fault_line, faults, load


@pytest.mark.parametrize(
    "content",
    [
        b"port = ",
        b"port = 1\nport = 2",
        f"[{CANARY}\n".encode(),
        f"a = {CANARY}".encode(),
        f"a = {{{CANARY} = 1, {CANARY} = 2}}".encode(),
        b"host = '\xff'",
        b"\xef\xbb\xbfport = 1",
        b"a = " + b"[" * 100_000,
    ],
)
def test_a_file_that_is_no_toml_stops_the_start(content: bytes) -> None:
    Path("sinksweep.toml").write_bytes(content)
    assert faults() == {"sinksweep.toml": "toml_invalid"}


def test_a_broken_line_of_the_file_is_named() -> None:
    assert "line 2" in fault_line("port = 1\nhost = ?\n")


def test_a_huge_file_is_not_read() -> None:
    assert faults("#" * (1 << 20) + "\n") == {"sinksweep.toml": "file_too_large"}


def test_a_misspelt_name_stops_the_start_and_the_right_one_is_suggested() -> None:
    line = fault_line("[queues.support]\natempts_max = 3")
    assert line.startswith("queues.support.atempts_max: unknown name, did you mean attempts_max?")
    assert "backoff_seconds_max" in line
    assert "did you mean limits?" in fault_line("[limit]\nmessages_max = 1")


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("SINKSWEEP_PROT", "1", "did you mean port?"),
        ("SINKSWEEP_LIMITS__RELEASES", "1", "did you mean releases_max?"),
        ("SINKSWEEP_QUEUES__SUPPORT__LEASE_SECOND", "1", "did you mean lease_seconds?"),
        ("SINKSWEEP_DATABASE_URL", f"postgresql://{CANARY}@x/y", "did you mean DATABASE_URL?"),
        ("Sinksweep_Port", "1", "in capitals"),
        ("SINKSWEEP_SERVICE_HOST", "10.0.0.1", "enableServiceLinks"),
        ("SINKSWEEP_PORT", "tcp://10.0.0.1:7979", "enableServiceLinks"),
        ("SINKSWEEP_PORT_7979_TCP_PROTO", "tcp", "enableServiceLinks"),
    ],
)
def test_an_unknown_variable_stops_the_start(name: str, value: str, hint: str) -> None:
    line = fault_line(environ={name: value})
    assert line.startswith(f"{name}: ")
    assert line.endswith("(unknown_name)")
    assert hint in line


def test_a_variable_with_an_odd_name_still_takes_one_line() -> None:
    assert faults(environ={"SINKSWEEP_A\nB": "1"}) == {"SINKSWEEP_A\nB": "unknown_name"}


def test_two_variables_that_contradict_each_other_stop_the_start() -> None:
    environ = {"SINKSWEEP_LIMITS": "1", "SINKSWEEP_LIMITS__BATCH_MAX": "1"}
    assert faults(environ=environ) == {"SINKSWEEP_LIMITS__BATCH_MAX": "invalid"}
    assert faults(environ={"SINKSWEEP_LIMITS": "1"}) == {"SINKSWEEP_LIMITS": "invalid"}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (f'port = "{CANARY}"', "port"),
        ("port = true", "port"),
        ("port = 65536", "port"),
        ("port = 1.5", "port"),
        ("host = 1", "host"),
        ('host = ""', "host"),
        ("limits = 1", "limits"),
        ("[limits]\nmessages_max = 0", "limits.messages_max"),
        ("[sweep]\ninterval_seconds = nan", "sweep.interval_seconds"),
        ("[sweep]\ninterval_seconds = inf", "sweep.interval_seconds"),
        ("[queues]\ndefault = 1", "queues.default"),
        ("[queues.default]\nlease_seconds = 0", "queues.default.lease_seconds"),
        ("[queues.a]\ncoalesce_quiet_seconds = 0", "queues.a.coalesce_quiet_seconds"),
        ("[queues.a]\ncoalesce_quiet_seconds = 3601", "queues.a.coalesce_quiet_seconds"),
        (f'[queues.default]\nconversations = "{CANARY}"', "queues.default.conversations"),
        (f'[queues.default]\ndestinations = "{CANARY}"', "queues.default.destinations"),
        ('[queues."a/b"]', 'queues."a/b"'),
        ('[queues."a\\nb"]', 'queues."a\\nb"'),
        ('[queues.""]', 'queues.""'),
        (f"[queues.{'x' * 256}]", None),
        (f'[network]\nallow = ["{CANARY}"]', "network.allow.0"),
        ('[network]\nallow = ["10.0.0.1/8"]', "network.allow.0"),
        ("[network]\nallow = [1]", "network.allow.0"),
        ('[destinations.a]\nkind = "x"\ntimeout_seconds = 301', "destinations.a.timeout_seconds"),
        ('[destinations.a]\nkind = "x"\nheaders_allow = ["a b"]', "destinations.a.headers_allow.0"),
        (f'[destinations.a]\nkind = "x"\non_unknown = "{CANARY}"', "destinations.a.on_unknown"),
        (f'database_url = "mysql://{CANARY}"', "database_url"),
        ("database_url = 1", "database_url"),
        ('database_url = "env:ABSENT"', "database_url"),
        (f'database.direct_url = "mysql://{CANARY}"', "database.direct_url"),
        ('database.direct_url = "env:ABSENT"', "database.direct_url"),
        ('database.pooler = "session"', "database.pooler"),
    ],
)
def test_a_wrong_value_stops_the_start_with_the_path_of_its_key(
    text: str, path: str | None
) -> None:
    found = faults(text)
    assert list(found.values()) == ["invalid"]
    assert path is None or list(found) == [path]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('port = "seven"', "a whole number is needed"),
        ("port = 65536", "must be at most 65535"),
        ("[sweep]\ninterval_seconds = 61", "must be at most 60"),
        ("[sweep]\ninterval_seconds = inf", "a finite number is needed"),
        ('[database]\nallow_unsafe = "perhaps"', "true or false is needed"),
        ("host = 1", "text is needed"),
        ("[queues.a]\ndestinations = 1", "a list is needed"),
        ("limits = 1", "a section is needed"),
        ('[queues.a]\nconversations = "x"', "one of these is needed: 'own' or 'any'"),
        ("[destinations.crm]\nattempts_max = 1", "this key is needed"),
    ],
)
def test_what_is_wrong_is_said_in_words_of_our_own(text: str, words: str) -> None:
    assert words in fault_line(text)


def test_what_a_channel_finds_is_reported_with_everything_else() -> None:
    def also(settings: Settings) -> list[Fault]:
        return [Fault(f"destinations.{name}", "odd", "is odd") for name in settings.destinations]

    destination = '[destinations.a]\nkind = "x"\n'
    for wrong in ("[limits]\nmessages_max = 0", "[database]\nlock_timeout_ms = 6000", ""):
        Path("sinksweep.toml").write_text(destination + wrong)
        with pytest.raises(SettingsError) as caught:
            load_settings(overrides={}, environ={}, also=also)
        codes = [fault.code for fault in caught.value.faults]
        assert len(codes) == 1 + bool(wrong)
        assert "odd" in codes


def test_a_wrong_variable_is_called_by_its_name() -> None:
    environ = {"SINKSWEEP_PORT": CANARY, "SINKSWEEP_NETWORK__ALLOW": f"[{CANARY}"}
    assert faults(environ=environ) == {
        "SINKSWEEP_PORT": "invalid",
        "SINKSWEEP_NETWORK__ALLOW": "invalid",
    }


def test_a_destination_needs_a_kind() -> None:
    assert faults("[destinations.crm]\nattempts_max = 1") == {"destinations.crm.kind": "missing"}


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    assert len(faults("port = -1\n[limits]\nx = 1\ny = 1\n[queues.a]\nbudget = {}")) == 4


NOT_BUILT = [
    *(f"[queues.a]\n{name} = 1" for name in sorted(Queue.not_built)),
    *(f'[destinations.a]\nkind = "x"\n{name} = 1' for name in sorted(Destination.not_built)),
]


@pytest.mark.parametrize("text", NOT_BUILT)
def test_a_key_whose_feature_is_not_built_stops_the_start(text: str) -> None:
    assert list(faults(text).values()) == ["not_supported"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[database]\nlock_timeout_ms = 6000", "database.lock_timeout_ms"),
        ("[database]\ncommand_seconds_max = 3", "database.statement_timeout_ms"),
        ("[database]\npooler_keeps_statements = true", "database.pooler_keeps_statements"),
        ("[queues.a]\nrate_burst = 5", "queues.a.rate_burst"),
        (
            '[destinations.a]\nkind = "x"\nbreaker_seconds_max = 1',
            "destinations.a.breaker_seconds",
        ),
        ("[limits]\nlease_seconds_max = 59", "queues.default.lease_seconds"),
        ("[queues.a]\nbackoff_seconds = 61", "queues.a.backoff_seconds"),
        (
            "[queues.a]\ncoalesce_quiet_seconds = 2\ncoalesce_seconds_max = 1.9",
            "queues.a.coalesce_quiet_seconds",
        ),
        ("[queues.a]\ncoalesce_seconds_max = 10", "queues.a.coalesce_seconds_max"),
        (
            '[destinations.a]\nkind = "x"\nbackoff_seconds_max = 0.5',
            "destinations.a.backoff_seconds",
        ),
    ],
)
def test_keys_that_contradict_each_other_stop_the_start(text: str, path: str) -> None:
    assert faults(text) == {path: "contradiction"}


def test_joining_is_off_until_a_quiet_period_is_given_and_lasts_five_of_them_unless_told() -> None:
    assert load().queues["default"].coalesce_quiet_seconds is None
    text = "[queues.a]\ncoalesce_quiet_seconds = 2\n[queues.b]\ncoalesce_quiet_seconds = 2"
    settings = load(f"{text}\ncoalesce_seconds_max = 2")
    assert [settings.queues[name].longest_coalesce_seconds for name in "ab"] == [10.0, 2.0]


def test_a_queue_names_only_destinations_that_exist() -> None:
    text = '[queues.a]\ndestinations = ["loopbak"]\n[destinations.loopback]\nkind = "loopback"'
    line = fault_line(text)
    assert line.startswith("queues.a.destinations.loopbak: unknown name, did you mean loopback?")
    assumed = {"destinations": {"loopback": {"kind": "loopback"}}}
    settings = load(text.partition("\n[dest")[0].replace("bak", "back"), assumed=assumed)
    assert settings.queues["a"].destinations == ("loopback",)


def test_faults_of_a_channels_own_configuration_read_like_all_others() -> None:
    class Config(BaseModel, extra="forbid"):
        url: str

    with pytest.raises(ValidationError) as caught:
        Config.model_validate({"url": 1, "atempts_max": 2})
    wrong, unknown = explain(
        caught.value,
        model=Config,
        at=("destinations", "crm"),
        also_known=Destination.model_fields,
    )
    assert (wrong.path, wrong.code) == ("destinations.crm.url", "invalid")
    assert unknown.path == "destinations.crm.atempts_max"
    assert "did you mean attempts_max?" in unknown.detail
