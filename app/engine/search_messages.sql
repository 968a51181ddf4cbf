-- name: turn_messages
-- The messages of a turn, of every seal.
select id as place, id
from sink.outbox
where
    turn = :turn and id < :before
    and (:queues::text[] is null or queue = any(:queues))
    and (:states::text[] is null or state = any(:states))
    and (:destination::text is null or destination = :destination)
order by id desc
limit :rows_max;

-- name: troubled_messages
-- Messages in states that have an index in the order of their ids, destination by destination. Without an id: where
-- the walk of one was cut.
with recursive shelf (state, destination) as (
    select s.state, (
        select o.destination from sink.outbox as o
        where o.state = s.state and o.state in ('dead', 'unknown', 'cancelled')
        order by o.destination limit 1
    )
    from unnest(:states::text[]) as s (state)
    union all
    select shelf.state, (
        select o.destination from sink.outbox as o
        where
            o.state = shelf.state and o.state in ('dead', 'unknown', 'cancelled')
            and o.destination > shelf.destination
        order by o.destination limit 1
    )
    from shelf
    where shelf.destination is not null
),

walked as materialized (
    select
        near.id, near.queue,
        row_number() over (partition by shelf.state, shelf.destination order by near.id desc) as nth
    from shelf
    cross join lateral (
        select stuck.id, stuck.queue
        from (
            select o.id, o.queue from sink.outbox as o
            where
                o.state = shelf.state and o.state in ('dead', 'unknown', 'cancelled')
                and o.destination = shelf.destination and o.id < :before
            order by o.id desc
            limit 500
        ) as stuck
        order by stuck.id desc
        limit :walk_max
    ) as near
    where :destination::text is null or shelf.destination = :destination
)

(
    select id as place, id
    from walked
    where :queues::text[] is null or queue = any(:queues)
    order by id desc
    limit :rows_max
)
union all
(select id, null from walked where nth = :walk_max);

-- name: live_messages
-- Messages in these states, whose indexes are in the order of their work and not of their ids: all of them, or more
-- than can be sorted.
with live as (
    select id, queue, destination from sink.outbox
    where state = 'pending' and blocked_by is null and 'pending' = any(:states::text[])
    union all
    select id, queue, destination from sink.outbox
    where blocked_by is not null and 'pending' = any(:states::text[])
    union all
    select id, queue, destination from sink.outbox
    where state = 'sending' and 'sending' = any(:states::text[])
)

select
    id as place,
    id,
    (:queues::text[] is null or queue = any(:queues))
    and (:destination::text is null or destination = :destination) as is_visible
from (select id, queue, destination from live limit 5000) as near -- noqa: AM09
limit :gather_max + 1; -- noqa: AM09

-- name: near_messages
-- Messages by their ids alone, of whatever state. Without an id: where the walk was cut.
with walked as materialized (
    select id, queue, state, destination
    from (
        select id, queue, state, destination from sink.outbox where id < :before order by id desc limit 5000
    ) as near
    order by id desc
    limit :walk_max
)

(
    select id as place, id
    from walked
    where
        (:queues::text[] is null or queue = any(:queues))
        and (:states::text[] is null or state = any(:states))
        and (:destination::text is null or destination = :destination)
    order by id desc
    limit :rows_max
)
union all
(select id, null from walked order by id desc limit 1 offset :walk_max - 1);

-- name: show_messages
-- Messages as they are, without their bodies.
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
    p.key,
    p.recipient,
    p.content_type,
    p.sealed_at
from sink.outbox as o
inner join sink.outbox_payload as p on p.message = o.id
where o.id = any(:messages);
