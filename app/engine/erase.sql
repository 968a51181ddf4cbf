-- name: find_live
-- Turns of a conversation, that wrote or are to follow into it, or that tell of one of its turns, that have not ended:
-- each with whether something of it is being sent.
with own as (
    select i.turn from sink.inbound as i
    where i.queue = :queue and i.conversation = :conversation
),

concerned as (
    select turn from own
    union
    select t.id from own
    inner join sink.turn as t on t.about = own.turn
    union
    select f.turn from sink.follow_up as f
    where f.queue = :queue and f.conversation = :conversation and f.conversation is not null and f.state = 'held'
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
-- Turns of a conversation, oldest first, and what tells somebody of them.
with next as (
    select distinct own.turn from (
        select i.turn from sink.inbound as i
        where i.queue = :queue and i.conversation = :conversation
        order by i.id
        limit :rows_max
    ) as own
)

select turn from next
union
(
    select t.id from next
    inner join sink.turn as t on t.about = next.turn
    limit :rows_max -- noqa: AM09
);

-- name: look_for_written
-- A stretch of all messages, and which of them were written into a conversation. No index serves this, so it is only
-- done for queues whose messages may name another conversation than their turn's.
select
    o.id,
    o.turn,
    o.queue = :queue and o.conversation = :conversation as is_written,
    t.state not in ('replied', 'undelivered', 'cancelled', 'failed') as is_live
from sink.outbox as o
inner join sink.turn as t on t.id = o.turn
where o.id > :after
order by o.id
limit :rows_max;

-- name: erase_follow_ups
-- What was to follow into a conversation, wherever it came from, goes once its turn is gone or never came to be. And
-- whether some is left that came in between.
with gone as (
    delete from sink.follow_up as f
    where
        f.queue = :queue and f.conversation = :conversation and f.conversation is not null and f.state <> 'held'
        and not exists (
            select from sink.turn as t where t.id = f.child and t.conversation is not distinct from f.conversation
        )
    returning f.child
)

select
    (select count(*) from gone) as rows,
    exists(
        select from sink.follow_up as f
        where f.queue = :queue and f.conversation = :conversation and f.conversation is not null and f.state = 'held'
    ) as is_left;

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
