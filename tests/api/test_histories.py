"""How the history of a claim is spelled: bodies byte for byte where every reader takes them, else in base64."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from app.api.claim_schemas import EndedAttempt
from app.api.histories import history_json
from app.domain.model import HistoryEntry, Revision, Said, VoidFollowUp, VoidMessage, Woken

AT = datetime(2026, 3, 29, 1, 0, 0, 5, tzinfo=UTC)
SPELLED = "2026-03-29T01:00:00.000005Z"


def spelled(said: Said | None, *, ended: str = "parked", reason: str | None = None) -> Any:
    """The one entry of a history, as everybody reads it."""
    (entry,) = json.loads(history_json([HistoryEntry(3, ended, reason, AT, said)]))
    # The documented shape takes it.
    EndedAttempt.model_validate(entry)
    return entry


def woken(**fields: Any) -> Woken:
    said = {"name": "answer", "by": "ann", "at": AT, "content_type": None, "body": None}
    return Woken(**{**said, "strict_json": False, **fields})


def test_an_attempt_of_which_nothing_was_said_has_four_members() -> None:
    entry = spelled(None, ended="swept", reason="lease_lapsed")
    assert entry == {"attempt": 3, "ended": "swept", "reason": "lease_lapsed", "at": SPELLED}


def test_a_signal_is_spelled_as_it_was_sent() -> None:
    json_type = {"content_type": "application/json", "strict_json": True}
    written = history_json(
        [HistoryEntry(1, "parked", "signal", AT, woken(body=b'{"a": 1.0}', **json_type))]
    )
    assert b'"payload":{"a": 1.0}' in written
    entry = spelled(woken(content_type="text/plain", body=b"\xff"), reason="signal")
    assert entry["wait"] == {
        "name": "answer",
        "by": "ann",
        "at": SPELLED,
        "content_type": "text/plain",
        "payload_base64": "/w==",
    }


def test_a_deadline_says_nothing() -> None:
    entry = spelled(woken(by=None), reason="deadline")
    assert entry["wait"] == {"name": "answer", "by": None, "at": SPELLED}


def test_what_had_no_room_says_so() -> None:
    entry = spelled(woken(content_type="application/json", omitted=True), reason="signal")
    assert entry["wait"]["omitted"] is True
    assert not {"payload", "payload_base64"} & set(entry["wait"])
    revision = spelled(Revision("ada", None, "sha256:0", (), (), omitted=True), ended="revised")
    assert revision["decision"] == {
        "by": "ada",
        "comment": None,
        "payload_hash": "sha256:0",
        "omitted": True,
        "messages": [],
        "follow_ups": [],
    }


def test_a_revision_shows_what_is_void() -> None:
    ids = [UUID(int=n) for n in range(2)]
    messages = [
        VoidMessage(ids[0], "crm", "ann", "c", "application/json", b'{"b": 1,  "a": 2}'),
        VoidMessage(ids[1], "crm", None, None, "text/plain", b"{}"),
    ]
    follow_ups = [
        VoidFollowUp("q", "c", "k", 60.0, AT, "application/json", b'{"n": 1.0}'),
        VoidFollowUp("q", None, None, 0.0, None, "text/plain", b"{}"),
    ]
    entry = spelled(Revision("ada", "shorter", "sha256:0", messages, follow_ups), ended="revised")
    first, second = entry["decision"]["messages"]
    assert first == {
        "id": "msg_00000000000000000000000000",
        "destination": "crm",
        "to": "ann",
        "conversation": "c",
        "content_type": "application/json",
        "payload": {"b": 1, "a": 2},
    }
    assert (second["payload_base64"], second["to"], second["conversation"]) == ("e30=", None, None)
    first, second = entry["decision"]["follow_ups"]
    assert first == {
        "queue": "q",
        "conversation": "c",
        "key": "k",
        "delay_seconds": 60.0,
        "not_before": SPELLED,
        "content_type": "application/json",
        "payload": {"n": 1.0},
    }
    assert (second["payload_base64"], second["key"], second["not_before"]) == ("e30=", None, None)
