-- name: keyed_turns
-- The turns that a key stands for: one probe for each scope that there is.
with recursive scope (name) as (
    select (select k.scope from sink.idempotency_key as k order by k.scope limit 1)
    union all
    select (select k.scope from sink.idempotency_key as k where k.scope > scope.name order by k.scope limit 1)
    from scope
    where scope.name is not null
)

select t.id as place, t.id
from scope
inner join sink.idempotency_key as k on k.scope = scope.name and k.key = :key
inner join sink.turn as t on t.id = k.turn
where
    t.id < :before
    and (:queues::text[] is null or t.queue = any(:queues))
    and (:conversation::text is null or t.conversation = :conversation)
    and (:root::uuid is null or t.root = :root)
    and (:about::uuid is null or t.about = :about)
    and (:states::text[] is null or t.state = any(:states))
order by t.id desc
limit :rows_max;

-- name: related_turns
-- The turns that a chain of follow-ups has begotten, or that tell of one. Without an id: where the walk was cut.
with walked as materialized (
    select near.id, near.queue, near.conversation, near.state, near.about
    from (
        (
            select t.id, t.queue, t.conversation, t.state, t.about from sink.turn as t
            where t.root is not null and t.root = :root and t.id < :before
            order by t.id desc
            limit 1000
        )
        union all
        (
            select t.id, t.queue, t.conversation, t.state, t.about from sink.turn as t
            where t.about is not null and t.about = :about and :root::uuid is null and t.id < :before
            order by t.id desc
            limit 1000
        )
    ) as near
    order by near.id desc
    limit :walk_max
)

(
    select walked.id as place, walked.id
    from walked
    where
        (:queues::text[] is null or queue = any(:queues))
        and (:conversation::text is null or conversation = :conversation)
        and (:about::uuid is null or about = :about)
        and (:states::text[] is null or state = any(:states))
    order by walked.id desc
    limit :rows_max
)
union all
(select walked.id, null from walked order by walked.id desc limit 1 offset :walk_max - 1);

-- name: conversation_turns
-- The turns of a conversation by their first inbound, which never move. Without an id: where the walk was cut.
with recursive shelf (queue) as (
    select (
        select i.queue from sink.inbound as i where i.conversation is not null order by i.queue limit 1
    )
    union all
    select (
        select i.queue from sink.inbound as i
        where i.conversation is not null and i.queue > shelf.queue
        order by i.queue limit 1
    )
    from shelf
    where shelf.queue is not null
),

walked as materialized (
    select near.id, near.turn, near.position
    from shelf
    cross join lateral (
        select i.id, i.turn, i.position from sink.inbound as i
        where i.queue = shelf.queue and i.conversation = :conversation and i.id < :before
        order by i.id desc
        limit 1000
    ) as near
    where :queues::text[] is null or shelf.queue = any(:queues)
    order by near.id desc
    limit :walk_max
)

(
    select walked.id as place, t.id
    from walked
    inner join sink.turn as t on t.id = walked.turn
    where walked.position = 0 and (:states::text[] is null or t.state = any(:states))
    order by walked.id desc
    limit :rows_max
)
union all
(select walked.id, null from walked order by walked.id desc limit 1 offset :walk_max - 1);

-- name: kept_turns
-- Turns in states that have an index in the order of their ids, queue by queue: at most 256.
with recursive shelf (state, queue) as (
    select s.state, case
        when s.state = 'sealed' then (
            select t.queue from sink.turn as t
            where t.state = 'sealed'
            order by t.queue limit 1
        )
        when s.state in ('parked', 'held', 'escalated') then (
            select t.queue from sink.turn as t
            where t.state = s.state and t.state in ('parked', 'held', 'escalated')
            order by t.queue limit 1
        )
        else (
            select t.queue from sink.turn as t
            where t.state = s.state and t.state in ('failed', 'undelivered', 'cancelled')
            order by t.queue limit 1
        )
    end
    from unnest(:states::text[]) as s (state)
    union all
    select shelf.state, case
        when shelf.state = 'sealed' then (
            select t.queue from sink.turn as t
            where t.state = 'sealed' and t.queue > shelf.queue
            order by t.queue limit 1
        )
        when shelf.state in ('parked', 'held', 'escalated') then (
            select t.queue from sink.turn as t
            where
                t.state = shelf.state and t.state in ('parked', 'held', 'escalated')
                and t.queue > shelf.queue
            order by t.queue limit 1
        )
        else (
            select t.queue from sink.turn as t
            where
                t.state = shelf.state and t.state in ('failed', 'undelivered', 'cancelled')
                and t.queue > shelf.queue
            order by t.queue limit 1
        )
    end
    from shelf
    where shelf.queue is not null
)

select near.id as place, near.id
from shelf
cross join lateral (
    (
        select troubled.id
        from (
            select t.id from sink.turn as t
            where
                shelf.state in ('failed', 'undelivered', 'cancelled') and t.state = shelf.state
                and t.state in ('failed', 'undelivered', 'cancelled')
                and t.queue = shelf.queue and t.id < :before
            order by t.id desc
            limit 256
        ) as troubled
        order by troubled.id desc
        limit :rows_max
    )
    union all
    (
        select moving.id
        from (
            select t.id from sink.turn as t
            where shelf.state = 'sealed' and t.state = 'sealed' and t.queue = shelf.queue and t.id < :before
            order by t.id desc
            limit 256
        ) as moving
        order by moving.id desc
        limit :rows_max
    )
    union all
    (
        select asking.id
        from (
            select t.id from sink.turn as t
            where
                shelf.state in ('parked', 'held', 'escalated') and t.state = shelf.state
                and t.state in ('parked', 'held', 'escalated')
                and t.queue = shelf.queue and t.id < :before
            order by t.id desc
            limit 256
        ) as asking
        order by asking.id desc
        limit :rows_max
    )
) as near
where :queues::text[] is null or shelf.queue = any(:queues)
order by near.id desc
limit :rows_max;

-- name: live_turns
-- Turns in these states, whose indexes are in the order of their work and not of their ids: all of them, or more than
-- can be sorted.
with recursive queue_of_queued (queue) as (
    select (select t.queue from sink.turn as t where t.state = 'queued' order by t.queue limit 1)
    where 'queued' = any(:states::text[])
    union all
    select (
        select t.queue from sink.turn as t where t.state = 'queued' and t.queue > q.queue order by t.queue limit 1
    )
    from queue_of_queued as q
    where q.queue is not null
),

queue_of_waiting (queue) as (
    select (select t.queue from sink.turn as t where t.state = 'waiting' order by t.queue limit 1)
    where 'waiting' = any(:states::text[])
    union all
    select (
        select t.queue from sink.turn as t where t.state = 'waiting' and t.queue > q.queue order by t.queue limit 1
    )
    from queue_of_waiting as q
    where q.queue is not null
),

live as (
    select t.id, t.queue
    from queue_of_queued as q
    cross join lateral (
        select near.id, near.queue from sink.turn as near where near.state = 'queued' and near.queue = q.queue
    ) as t
    where :queues::text[] is null or q.queue = any(:queues)
    union all
    select t.id, t.queue
    from queue_of_waiting as q
    cross join lateral (
        select near.id, near.queue from sink.turn as near where near.state = 'waiting' and near.queue = q.queue
    ) as t
    where :queues::text[] is null or q.queue = any(:queues)
    union all
    select id, queue from sink.turn where state = 'scheduled' and 'scheduled' = any(:states::text[])
    union all
    select id, queue from sink.turn where state = 'processing' and 'processing' = any(:states::text[])
)

select id as place, id, :queues::text[] is null or queue = any(:queues) as is_visible
from (select id, queue from live limit 5000) as near -- noqa: AM09
limit :gather_max + 1; -- noqa: AM09

-- name: near_turns
-- Turns by their ids alone, of whatever state. Without an id: where the walk was cut.
with walked as materialized (
    select id, queue, state
    from (select id, queue, state from sink.turn where id < :before order by id desc limit 5000) as near
    order by id desc
    limit :walk_max
)

(
    select id as place, id
    from walked
    where
        (:queues::text[] is null or queue = any(:queues))
        and (:states::text[] is null or state = any(:states))
    order by id desc
    limit :rows_max
)
union all
(select id, null from walked order by id desc limit 1 offset :walk_max - 1);
