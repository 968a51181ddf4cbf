-- name: find_places
-- Where turns belong: never changes.
select id, queue, conversation from sink.turn where id = any(:turns);

-- name: find_inbound_place
-- Where the turn of an inbound belongs.
select turn as id, queue, conversation from sink.inbound where id = :inbound;

-- name: find_message_place
-- Where the turn of a message belongs.
select t.id, t.queue, t.conversation
from sink.outbox as o
inner join sink.turn as t on t.id = o.turn
where o.id = :message;

-- name: find_states
-- Where turns are now.
select id, state from sink.turn where id = any(:turns);

-- name: find_inbound
-- One inbound, whole.
select
    id, turn, queue, source, conversation, received_at, content_type, headers, metadata, body, strict_json, view
from sink.inbound
where id = :inbound;

-- name: find_message
-- One message, whole.
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
    o.delivered_at, p.key, p.recipient, p.content_type, p.sealed_at, p.headers, p.address, p.body
from sink.outbox as o
inner join sink.outbox_payload as p on p.message = o.id
where o.id = :message;

-- name: find_message_events
-- The story of one message: its moves, in order.
select id, at, turn, message, verb, from_state, to_state, attempt, attempt_id, reason, detail
from sink.event
where turn = :turn and message = :message
order by id
limit :events_max;

-- name: find_events
-- The story of a turn, with its messages: a page after a number.
select id, at, turn, message, verb, from_state, to_state, attempt, attempt_id, reason, detail
from sink.event
where turn = :turn and id > :after
order by id
limit :events_max;

-- name: find_progress
-- Where a turn is, and whether it has ever been in a state.
select
    t.state,
    exists(
        select from sink.event as e where e.turn = t.id and e.message is null and e.to_state = :state
    ) as reached
from sink.turn as t
where t.id = :turn;

-- name: oldest_queued
-- How long the turn that was due first has been due, for each of these queues. Priorities are walked one by one, so
-- that any number that back off costs nothing, and a low one that is never reached shows.
with recursive rung (queue, priority) as (
    select
        q.queue,
        (
            select t.priority from sink.turn as t
            where t.queue = q.queue and t.state = 'queued'
            order by t.priority desc limit 1
        )
    from unnest(:queues::text[]) as q (queue)
    union all
    select
        rung.queue,
        (
            select t.priority from sink.turn as t
            where t.queue = rung.queue and t.state = 'queued' and t.priority < rung.priority
            order by t.priority desc limit 1
        )
    from rung
    where rung.priority is not null
)

select rung.queue, extract(epoch from sink.now() - min(oldest.due_at))::double precision as age_seconds
from rung
cross join lateral (
    select t.due_at from sink.turn as t
    where
        t.queue = rung.queue and t.priority = rung.priority and t.state = 'queued' and t.due_at <= sink.now()
    order by t.due_at, t.id limit 1
) as oldest
group by rung.queue;

-- name: oldest_pending
-- The due time of the message that waits longest to be sent, for each of these destinations: one index entry each.
select d.destination, extract(epoch from sink.now() - oldest.due_at)::double precision as age_seconds
from unnest(:destinations::text[]) as d (destination)
cross join lateral (
    select o.due_at from sink.outbox as o
    where
        o.destination = d.destination and o.state = 'pending' and o.blocked_by is null and o.due_at <= sink.now()
    order by o.due_at, o.id limit 1
) as oldest;
