-- name: read_held_sets
-- The sets that these turns wait with, and what binds each.
select t.id as turn, t.queue, h.attempt, h.strict, t.payload_hash
from sink.turn as t
inner join sink.hold as h on h.turn = t.id and h.seal = t.seal and h.payload_hash = t.payload_hash
where t.id = any(:turns) and h.decision is null;

-- name: read_held_messages
-- The messages of the sets that these turns wait with, whole.
select
    o.id, o.turn, o.position, o.conversation, o.destination, o.delay_seconds,
    p.key, p.recipient, p.headers, p.content_type, p.body, p.hash, p.address, p.reply_of
from sink.turn as t
inner join sink.outbox as o on o.turn = t.id and o.seal = t.seal
left join sink.outbox_payload as p on p.message = o.id
where t.id = any(:turns) and o.state = 'held'
order by o.turn, o.position;

-- name: read_held_follow_ups
-- What the sets that these turns wait with ask for later, whole.
select
    f.turn, f.position, f.queue, f.conversation, f.scope, f.key, f.content_type, f.body, f.delay_seconds,
    f.not_before, f.hash
from sink.turn as t
inner join sink.follow_up as f on f.turn = t.id and f.seal = t.seal
where t.id = any(:turns) and f.state = 'held'
order by f.turn, f.position;
