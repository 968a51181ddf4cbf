-- name: next_turns
-- What matches next, in the order of the ids. Without an id: where the walk was cut.
with walked as materialized (
    select id, queue, conversation, state, reason, created_at
    from (
        select id, queue, conversation, state, reason, created_at from sink.turn
        where id > :after and id <= :until
        order by id
        limit 5000
    ) as near
    order by id
    limit :walk_max
)

(
    select id as place, id, id as turn, queue
    from walked
    where
        state = any(:states)
        and (:queues::text[] is null or queue = any(:queues))
        and (:conversation::text is null or conversation = :conversation)
        and (:reason::text is null or reason = :reason)
        and (:created_after::timestamptz is null or created_at >= :created_after)
        and (:created_before::timestamptz is null or created_at < :created_before)
    order by id
    limit :rows_max
)
union all
(select id, null, null, null from walked order by id limit 1 offset :walk_max - 1);

-- name: next_kept_turns
-- The same for states that have an index in the order of the ids, queue by queue.
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
),

walked as materialized (
    select
        near.id, near.queue, near.conversation, near.reason, near.created_at,
        row_number() over (partition by shelf.state, shelf.queue order by near.id) as nth
    from shelf
    cross join lateral (
        (
            select *
            from (
                select t.id, t.queue, t.conversation, t.reason, t.created_at from sink.turn as t
                where
                    shelf.state in ('failed', 'undelivered', 'cancelled') and t.state = shelf.state
                    and t.state in ('failed', 'undelivered', 'cancelled')
                    and t.queue = shelf.queue and t.id > :after and t.id <= :until
                order by t.id
                limit 1000
            ) as troubled
            order by troubled.id
            limit :walk_max
        )
        union all
        (
            select *
            from (
                select t.id, t.queue, t.conversation, t.reason, t.created_at from sink.turn as t
                where
                    shelf.state = 'sealed' and t.state = 'sealed'
                    and t.queue = shelf.queue and t.id > :after and t.id <= :until
                order by t.id
                limit 1000
            ) as moving
            order by moving.id
            limit :walk_max
        )
        union all
        (
            select *
            from (
                select t.id, t.queue, t.conversation, t.reason, t.created_at from sink.turn as t
                where
                    shelf.state in ('parked', 'held', 'escalated') and t.state = shelf.state
                    and t.state in ('parked', 'held', 'escalated')
                    and t.queue = shelf.queue and t.id > :after and t.id <= :until
                order by t.id
                limit 1000
            ) as asking
            order by asking.id
            limit :walk_max
        )
    ) as near
    where :queues::text[] is null or shelf.queue = any(:queues)
)

(
    select id as place, id, id as turn, queue
    from walked
    where
        (:conversation::text is null or conversation = :conversation)
        and (:reason::text is null or reason = :reason)
        and (:created_after::timestamptz is null or created_at >= :created_after)
        and (:created_before::timestamptz is null or created_at < :created_before)
    order by id
    limit :rows_max
)
union all
(select id, null, null, null from walked where nth = :walk_max);

-- name: next_messages
-- What matches next, in the order of the ids. Without an id: where the walk was cut.
with walked as materialized (
    select id, turn, queue, destination, state, reason, delivered_at
    from (
        select id, turn, queue, destination, state, reason, delivered_at from sink.outbox
        where id > :after and id <= :until
        order by id
        limit 5000
    ) as near
    order by id
    limit :walk_max
)

(
    select id as place, id, turn, queue
    from walked
    where
        state = any(:states)
        and (:queues::text[] is null or queue = any(:queues))
        and (:destination::text is null or destination = :destination)
        and (:reason::text is null or reason = :reason)
        and (:delivered_after::timestamptz is null or delivered_at >= :delivered_after)
        and (:delivered_before::timestamptz is null or delivered_at < :delivered_before)
    order by id
    limit :rows_max
)
union all
(select id, null, null, null from walked order by id limit 1 offset :walk_max - 1);

-- name: next_kept_messages
-- The same for states that have an index in the order of the ids, destination by destination.
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
        near.id, near.turn, near.queue, near.reason,
        row_number() over (partition by shelf.state, shelf.destination order by near.id) as nth
    from shelf
    cross join lateral (
        select *
        from (
            select o.id, o.turn, o.queue, o.reason from sink.outbox as o
            where
                o.state = shelf.state and o.state in ('dead', 'unknown', 'cancelled')
                and o.destination = shelf.destination and o.id > :after and o.id <= :until
            order by o.id
            limit 1000
        ) as stuck
        order by stuck.id
        limit :walk_max
    ) as near
    where :destination::text is null or shelf.destination = :destination
)

(
    select id as place, id, turn, queue
    from walked
    where
        (:queues::text[] is null or queue = any(:queues))
        and (:reason::text is null or reason = :reason)
    order by id
    limit :rows_max
)
union all
(select id, null, null, null from walked where nth = :walk_max);
