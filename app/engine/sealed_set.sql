-- name: find_seal
-- One seal of a turn: the one under a number, or the last. What was held keeps its hash whatever became of it.
select
    t.queue,
    t.conversation,
    t.state,
    s.seal,
    t.seal = s.seal and t.payload_hash is not null as is_live,
    coalesce(h.payload_hash, t.payload_hash) as payload_hash,
    h.seal as hold_seal,
    h.payload_hash as hold_payload_hash,
    h.demanded_by as hold_demanded_by,
    h.note as hold_note,
    h.on_deadline as hold_on_deadline,
    h.held_at as hold_held_at,
    h.deadline_at as hold_deadline_at,
    h.reminders as hold_reminders,
    h.decision as hold_decision,
    h.decided_at as hold_decided_at,
    h.decided_by as hold_decided_by,
    h.comment as hold_comment,
    h.new_hash as hold_new_hash
from sink.turn as t
cross join lateral (select coalesce(:seal::smallint, t.seal) as seal) as s
left join sink.hold as h on h.turn = t.id and h.seal = s.seal
where t.id = :turn and (h.seal is not null or t.seal = s.seal and t.payload_hash is not null);

-- name: find_set_messages
-- The messages of one seal, in their order, with all that their hashes cover.
select
    o.id,
    o.turn,
    o.queue,
    o.conversation,
    o.destination,
    o.state,
    o.reason,
    o.attempts,
    o.blocked_by,
    o.due_at,
    o.receipt,
    o.delivered_at,
    o.delay_seconds,
    o.strict,
    p.key, p.recipient, p.content_type, p.sealed_at, p.headers, p.address, p.body
from sink.outbox as o
inner join sink.outbox_payload as p on p.message = o.id
where o.turn = :turn and o.seal = :seal
order by o.position;

-- name: find_set_follow_ups
-- What one seal committed for later, with the bodies that have not moved to their inbound.
select
    f.child as turn,
    f.inbound,
    f.queue,
    f.conversation,
    coalesce(c.state, g.state, f.state) as state,
    f.key,
    f.delay_seconds,
    f.not_before,
    case c.state when 'scheduled' then c.due_at end as due_at,
    f.content_type,
    f.body
from sink.follow_up as f
left join sink.turn as c on c.id = f.child
left join sink.tombstone as g on g.id = f.child
where f.turn = :turn and f.seal = :seal
order by f.position;
