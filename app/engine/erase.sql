-- name: find_live
-- Turns of a conversation, or that wrote into it, that have not ended: each with whether something of it is being sent.
with concerned as (
    select i.turn from sink.inbound as i
    where i.queue = :queue and i.conversation = :conversation
    union
    select o.turn from sink.outbox as o
    where
        o.queue = :queue and o.conversation = :conversation
        and o.state in ('pending', 'sending') and not o.left_lane and o.conversation is not null
)

select
    t.id,
    exists (select from sink.outbox as o where o.turn = t.id and o.state = 'sending')
    or exists (select from sink.resend as r where r.turn = t.id and r.attempt_id is not null) as is_sending
from concerned
inner join sink.turn as t on t.id = concerned.turn
where
    t.state not in ('replied', 'undelivered', 'cancelled', 'failed')
    or exists (select from sink.outbox as o where o.turn = t.id and o.state = 'sending')
    or exists (select from sink.resend as r where r.turn = t.id)
order by t.id
limit :turns_max;

-- name: drop_resends
-- What was to be sent once more is not, unless it is being sent: its destination may be gone, or paused for long.
with dropped as (
    delete from sink.resend where turn = any(:turns) and attempt_id is null
    returning turn, message, attempts
)

insert into sink.event (turn, message, verb, from_state, to_state, attempt, reason, detail)
select
    turn, message, 'resend', 'delivered', 'delivered', nullif(attempts, 0), 'cancelled',
    jsonb_build_object('step', 'ended', 'outcome', 'cancelled', 'by', :by::text)
from dropped;

-- name: find_concerned
-- Turns of a conversation, oldest first.
select distinct turn from (
    select i.turn from sink.inbound as i
    where i.queue = :queue and i.conversation = :conversation
    order by i.id
    limit :rows_max
) as next;

-- name: look_for_written
-- A stretch of all messages, and which of them were written into a conversation. No index serves this, so it is only
-- done for queues whose messages may name another conversation than their turn's.
select o.id, o.turn, o.queue = :queue and o.conversation = :conversation as is_written
from sink.outbox as o
where o.id > :after
order by o.id
limit :rows_max;

-- name: hold_lane_of
-- Lock the lane of a conversation.
select l.queue, l.conversation from sink.lane as l
where l.queue = :queue and l.conversation = :conversation
for update;

-- name: hold_delivery_lanes_of
-- Lock the delivery lanes of a conversation, in order.
select l.queue, l.conversation, l.destination from sink.delivery_lane as l
where l.queue = :queue and l.conversation = :conversation
order by l.destination
for update;

-- name: erase_loopback
-- What the loopback channel received of a conversation whose turns are gone.
with gone as (
    delete from sink.loopback where queue = :queue and conversation = :conversation
    returning key
)

select count(*) as rows from gone;

-- name: erase_filters
-- Bulk operations that ended keep everything but the name that they looked for. One that runs needs it: how many do.
with named as materialized (
    select id, state from sink.operation
    where filter ->> 'conversation' = :conversation and (queues is null or :queue = any(queues))
),

erased as (
    update sink.operation as o
    set filter = jsonb_set(jsonb_set(o.filter, '{conversation}', '"erased"'), '{asked,conversation}', '"erased"')
    from named
    where o.id = named.id and o.state <> 'running' and named.state <> 'running'
)

select count(*) as rows from named
where state = 'running';
