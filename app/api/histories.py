"""The history of a claimed turn as JSON: how its attempts ended, and what was said about them, byte for byte."""

from collections.abc import Sequence
from typing import assert_never

from app.api.answers import message_id, payload_member, rfc3339, to_json, with_members
from app.domain.media import reads_as_json
from app.domain.model import HistoryEntry, Revision, Said, VoidFollowUp, VoidMessage, Woken


def history_json(history: Sequence[HistoryEntry]) -> bytes:
    """Write the entries, oldest first."""
    return b"[%b]" % b",".join(map(_entry, history))


def _entry(entry: HistoryEntry) -> bytes:
    fields = {
        "attempt": entry.attempt,
        "ended": entry.ended,
        "reason": entry.reason,
        "at": rfc3339(entry.at),
    }
    return with_members(fields, *_said(entry.said))


def _said(said: Said | None) -> Sequence[tuple[str, bytes]]:
    match said:
        case None:
            return ()
        case Revision():
            return [("decision", _revision(said))]
        case Woken():
            return [("wait", _woken(said))]
        case _:
            assert_never(said)


def _revision(said: Revision) -> bytes:
    fields = {
        "by": said.by,
        "comment": said.comment,
        "payload_hash": said.payload_hash,
        **_omitted(said),
    }
    return with_members(
        fields,
        ("messages", b"[%b]" % b",".join(map(_message, said.messages))),
        ("follow_ups", b"[%b]" % b",".join(map(_follow_up, said.follow_ups))),
    )


def _message(message: VoidMessage) -> bytes:
    fields = {
        "id": message_id(message.id),
        "destination": message.destination,
        "to": message.recipient,
        "conversation": message.conversation,
        "content_type": message.content_type,
    }
    strict = reads_as_json(message.body, content_type=message.content_type)
    return with_members(fields, payload_member(message.body, strict_json=strict))


def _follow_up(one: VoidFollowUp) -> bytes:
    fields = {
        "queue": one.queue,
        "conversation": one.conversation,
        "key": one.key,
        "delay_seconds": one.delay_seconds,
        "not_before": None if one.not_before is None else rfc3339(one.not_before),
        "content_type": one.content_type,
    }
    strict = reads_as_json(one.body, content_type=one.content_type)
    return with_members(fields, payload_member(one.body, strict_json=strict))


def _woken(said: Woken) -> bytes:
    fields = {"name": said.name, "by": said.by, "at": rfc3339(said.at), **_omitted(said)}
    if said.content_type is None:
        return to_json(fields)
    fields["content_type"] = said.content_type
    if said.body is None:
        return to_json(fields)
    return with_members(fields, payload_member(said.body, strict_json=said.strict_json))


def _omitted(said: Said) -> dict[str, object]:
    return {"omitted": True} if said.omitted else {}
