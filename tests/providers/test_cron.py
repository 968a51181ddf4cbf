"""Cron: what a configuration may say, and what each scheduled time brings."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from app.domain.webhook import Refused, Request, Result, Secrets
from app.providers.cron import CronConfig, provider

NOW = datetime(2026, 10, 25, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def test_a_scheduled_time_is_the_key_and_what_it_brings_is_configured() -> None:
    config = CronConfig.model_validate(
        {
            "schedule": "30 2 * * *",
            "time_zone": "Europe/Paris",
            "payload": {"report": "daily", "über": [1, None]},
            "conversation": ["T1", "C1"],
        }
    )
    (item,) = provider.due(config=config, after=NOW - DAY, now=NOW, items_max=10)
    assert item.keys == ("2026-10-25T00:30:00Z",)
    assert item.dated == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert item.conversation == ("T1", "C1")
    assert item.event == "due"
    assert json.loads(item.body) == {
        "scheduled_at": "2026-10-25T00:30:00Z",
        "payload": {"report": "daily", "über": [1, None]},
    }
    assert item.view.text == ""


def test_two_schedules_that_meet_bring_one_inbound() -> None:
    config = CronConfig.model_validate(
        {"schedule": ["0 9 * * *", "0 9 25 * *", "0 10 * * *"], "payload": "good morning"}
    )
    found = provider.due(config=config, after=NOW - timedelta(hours=5), now=NOW, items_max=10)
    assert [item.keys[0][11:16] for item in found] == ["09:00", "10:00"]
    assert found[0].view.text == "good morning"
    last = provider.due(config=config, after=NOW - timedelta(hours=5), now=NOW, items_max=1)
    assert [item.keys[0][11:16] for item in last] == ["10:00"]


def test_even_steps_need_no_zone() -> None:
    config = CronConfig.model_validate({"every_seconds": 900})
    found = provider.due(config=config, after=NOW - timedelta(hours=1), now=NOW, items_max=10)
    assert [item.keys[0][11:16] for item in found] == ["11:15", "11:30", "11:45", "12:00"]
    assert found[0].conversation == ()


def test_nothing_is_due_twice_and_nothing_from_the_future() -> None:
    config = CronConfig.model_validate({"schedule": "* * * * *"})
    assert provider.due(config=config, after=NOW, now=NOW, items_max=10) == []
    assert provider.due(config=config, after=NOW + DAY, now=NOW, items_max=10) == []
    (item,) = provider.due(config=config, after=NOW - timedelta(seconds=1), now=NOW, items_max=10)
    assert item.keys == ("2026-10-25T12:00:00Z",)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"schedule": [], "time_zone": "UTC"},
        {"schedule": "0 9 * * *", "every_seconds": 60},
        {"schedule": "c4n4ry 9 * * *"},
        {"schedule": "0 0 30 2 *"},
        {"schedule": ["0 9 * * *"] * 21},
        {"schedule": "0 9 * * *", "time_zone": "c4n4ry/Nowhere"},
        {"schedule": "0 9 * * *", "time_zone": "../../etc/c4n4ry"},
        {"schedule": "0 9 * * *", "time_zone": "Europe"},
        {"schedule": "0 9 * * *", "time_zone": ""},
        {"schedule": "0 9 * * *", "catch_up_max": 0},
        {"schedule": "0 9 * * *", "catch_up_max": True},
        {"schedule": "0 9 * * *", "payload": float("nan")},
        {"schedule": "0 9 * * *", "payload": {"at": NOW}},
        {"schedule": "0 9 * * *", "payload": "x" * 70_000},
        {"schedule": "0 9 * * *", "conversation": [""]},
        {"every_seconds": 1},
        {"every_seconds": "60"},
        {"every_seconds": True},
        {"schedule": 5},
        {"schedule": "0 9 * * *", "c4n4ry": 1},
    ],
)
def test_what_cannot_be_meant_is_refused_without_repeating_it(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as refused:
        CronConfig.model_validate(options)
    told = refused.value.errors(include_input=False, include_url=False, include_context=False)
    assert not any("c4n4ry" in one["msg"] for one in told)


def test_a_configuration_is_frozen_and_can_be_told_from_another() -> None:
    config = CronConfig.model_validate({"schedule": "0 9 * * *", "payload": {"a": [1]}})
    assert hash(config) == hash(config.model_copy())
    with pytest.raises(ValidationError):
        config.time_zone = "UTC"  # type: ignore[misc]


def test_it_takes_no_request() -> None:
    config = CronConfig.model_validate({"every_seconds": 60})
    request = Request(method="POST", public_url="https://in.example/", headers={}, body=b"{}")
    with pytest.raises(Refused) as refused:
        provider.receive(request, config=config, secrets=Secrets(), keys=None, now=NOW)
    assert refused.value.result is Result.WRONG_METHOD
    assert not provider.methods
