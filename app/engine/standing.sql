-- name: find_turns
-- Turns as they are, with the last hold of each, and the park that lasts.
select
    t.id,
    t.queue,
    t.conversation,
    t.state,
    t.reason,
    t.attempt,
    t.created_at,
    t.due_at,
    t.payload_hash,
    t.seal,
    t.about,
    t.root,
    t.depth,
    (select i.id from sink.inbound as i where i.turn = t.id order by i.position limit 1) as inbound,
    t.payload_hash is not null
    and exists (select from sink.follow_up as f where f.turn = t.id and f.seal = t.seal) as has_follow_ups,
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
    h.new_hash as hold_new_hash,
    w.name as wait_name,
    w.note as wait_note,
    w.payload_hash as wait_payload_hash,
    w.asked_at as wait_asked_at,
    w.deadline_at as wait_deadline_at
from sink.turn as t
left join sink.hold as h on h.turn = t.id and h.seal = (
    select last.seal from sink.hold as last
    where last.turn = t.id
    order by last.seal desc limit 1
)
left join sink.wait as w on w.turn = t.id and w.attempt = t.attempt and w.ended is null and t.state = 'parked'
where t.id = any(:turns);

-- name: find_messages
-- The live sets of these turns, in the order of their messages. What is to be revised is of no live set.
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
    o.delivered_at, p.key, p.recipient, p.content_type, p.sealed_at
from sink.outbox as o
inner join sink.turn as t on t.id = o.turn and t.seal = o.seal and t.payload_hash is not null
inner join sink.outbox_payload as p on p.message = o.id
where o.turn = any(:turns)
order by o.turn, o.position;

-- name: find_follow_ups
-- What one seal committed for later: each as its turn is, or was when that was purged, once it has come to be.
select
    f.child as turn,
    f.inbound,
    f.queue,
    f.conversation,
    coalesce(c.state, g.state, f.state) as state,
    f.key,
    f.delay_seconds,
    f.not_before,
    case c.state when 'scheduled' then c.due_at end as due_at
from sink.follow_up as f
left join sink.turn as c on c.id = f.child
left join sink.tombstone as g on g.id = f.child
where f.turn = :turn and f.seal = :seal
order by f.position;
