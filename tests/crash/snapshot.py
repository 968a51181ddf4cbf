"""What is committed, without ids and times of day, so that two runs of one story can be compared row by row."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.database import Admin

# Everything that a verb may write. Times are seconds from the stopped clock's now.
TABLES = {
    "idempotency_key": """
        case when k.scope = 'follow_up' then 'its own' else k.key end, k.last_state from sink.idempotency_key as k
    """,
    "inbound": """
        encode(i.body, 'escape'), t.lane_seq, t.state
        from sink.inbound as i left join sink.turn as t on t.id = i.turn
    """,
    "lane": "l.conversation, l.tail, l.holder is null from sink.lane as l",
    "turn": """
        t.conversation, t.lane_seq, t.priority, t.state, t.reason, t.attempt, t.attempts_used, t.releases,
        t.token is null, t.seal, t.inbound_count, t.input_bytes, t.lease_seconds,
        t.deadline_at - sink.now(), t.about is null, t.root is null, t.depth, t.revisions, t.parks,
        t.held_source, extract(epoch from nullif(t.due_at, 'infinity') - sink.now()),
        extract(epoch from t.ages_from - sink.now()), extract(epoch from t.lease_expires_at - sink.now())
        from sink.turn as t
    """,
    "attempt": """
        t.lane_seq, a.number, a.agent, a.ended, a.reason, a.request is null, a.request_hash is null
        from sink.attempt as a inner join sink.turn as t on t.id = a.turn
    """,
    "claim_request": "r.agent, r.request_id, r.parameters from sink.claim_request as r",
    "delivery_lane": "l.conversation, l.destination, l.tail from sink.delivery_lane as l",
    "outbox": """
        o.seal, o.position, o.conversation, o.place, o.strict, o.left_lane, o.hold_unknown, o.state, o.reason,
        b.place, b.position,
        o.attempts, o.attempts_used, o.may_have_arrived, o.cancel_asked, o.receipt, {said},
        extract(epoch from o.due_at - sink.now()), extract(epoch from o.lease_expires_at - sink.now())
        from sink.outbox as o left join sink.outbox as b on b.id = o.blocked_by
        left join sink.outbox_payload as p on p.message = o.id
    """,
    "destination": "d.name, d.sending, d.breaker, d.failures, d.openings from sink.destination as d",
    "operation": """
        n.kind, n.verb, n.state, n.last_id is null, n.found, n.changed, n.refused, n.failed,
        extract(epoch from n.ended_at - sink.now())
        from sink.operation as n
    """,
    "tombstone": "g.queue, g.state, extract(epoch from g.expires_at - sink.now()) from sink.tombstone as g",
    "resend": """
        p.body, r.attempts, r.hold_unknown, r.requested_by, r.attempt_id is null,
        extract(epoch from r.due_at - sink.now()), extract(epoch from r.lease_expires_at - sink.now())
        from sink.resend as r left join sink.outbox_payload as p on p.message = r.message
    """,
    "hold": """
        h.seal, h.attempt, h.demanded_by, h.strict, h.note, h.on_deadline, h.held_at, h.deadline_at, h.reminders,
        h.decision, h.decided_at, h.decided_by, h.decided_with, h.comment, h.request_hash, h.new_hash is null
        from sink.hold as h
    """,
    "wait": """
        w.attempt, w.name, w.note, w.payload_hash, w.asked_at, w.deadline_at, w.ended, w.ended_at, w.signal
        from sink.wait as w
    """,
    "signal": """
        g.name, g.number, g.body, g.payload_hash, g.is_decision, g.sent_by, g.sent_with, g.sent_at, g.dropped_at
        from sink.signal as g
    """,
    "follow_up": """
        f.seal, f.position, f.state, f.queue, f.conversation, f.scope, f.body, f.delay_seconds, f.is_duplicate
        from sink.follow_up as f
    """,
    "notice": "n.queue, n.kind, n.reason, n.message is null, n.noted_at from sink.notice as n",
    "pause": "s.kind, s.name, s.paused_by from sink.pause as s",
    "standstill": "s.destination, s.cause, s.began_at, s.ended_at from sink.standstill as s",
    "outbox_payload": "{said} from sink.outbox_payload as p",
    "event": """
        e.message is null, e.verb, e.from_state, e.to_state, e.attempt, e.reason, e.attempt_id is null
        from sink.event as e
    """,
}
# What people are told names turns, messages and hashes, which are others in each run.
SAID = r"regexp_replace(encode(p.body, 'escape'), '(turn|msg)_[0-9a-z]{26}|[0-9a-f]{64}', '', 'g')"
QUERY = " union all ".join(
    f"select '{table}' || row({columns.replace(' from sink.', ')::text from sink.', 1)}".replace(
        "{said}", SAID
    )
    for table, columns in ((name, " ".join(text.split())) for name, text in TABLES.items())
)
IDS = """
    select id from sink.inbound union select id from sink.turn union select id from sink.outbox
    union select child from sink.follow_up union select inbound from sink.follow_up
    union select id from sink.resend union select token from sink.attempt union select attempt_id from sink.event
"""
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KEY = re.compile(r"(?:msg|turn)_[0-9a-z]{26}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")

Snapshot = tuple[str, ...]


async def snapshot(admin: "Admin") -> Snapshot:
    """Every committed row, in an order of its own."""
    return tuple(sorted(row[0] for row in await admin.fetch(QUERY)))


def shape(answer: object) -> str:
    """An answer without its ids: each is called by the order in which it is named."""
    names: dict[str, str] = {}
    text = _HASH.sub("hash", _KEY.sub("key", repr(answer)))
    return _ID.sub(lambda found: names.setdefault(found[0], f"#{len(names)}"), text)


def ids_in(answer: object) -> set[str]:
    """Every id and token that an answer names."""
    return set(_ID.findall(repr(answer)))


async def unknown_ids(admin: "Admin", answer: object) -> set[str]:
    """The ids in an answer that no row knows."""
    return ids_in(answer) - {str(row[0]) for row in await admin.fetch(IDS)}
