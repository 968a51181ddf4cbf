-- name: names_in_use
-- What rows name: queues and destinations of what is open, sources of what is held up. Names are walked one by one
-- through their indexes, whatever stands behind each.
with recursive queued (name) as (
    (select queue from sink.turn where state = 'queued' order by queue limit 1)
    union all
    select (
        select t.queue from sink.turn as t where t.state = 'queued' and t.queue > queued.name order by t.queue limit 1
    ) from queued where queued.name is not null
),

scheduled (name) as (
    (select queue from sink.turn where state = 'scheduled' order by queue limit 1)
    union all
    select (
        select t.queue from sink.turn as t
        where t.state = 'scheduled' and t.queue > scheduled.name order by t.queue limit 1
    ) from scheduled where scheduled.name is not null
),

sealed (name) as (
    (select queue from sink.turn where state = 'sealed' order by queue limit 1)
    union all
    select (
        select t.queue from sink.turn as t where t.state = 'sealed' and t.queue > sealed.name order by t.queue limit 1
    ) from sealed where sealed.name is not null
),

asking (state, name) as (
    select s.state, (
        select t.queue from sink.turn as t
        where t.state in ('parked', 'held', 'escalated') and t.state = s.state
        order by t.state, t.queue limit 1
    )
    from (values ('parked'), ('held'), ('escalated')) as s (state)
    union all
    select asking.state, (
        select t.queue from sink.turn as t
        where t.state in ('parked', 'held', 'escalated') and t.state = asking.state and t.queue > asking.name
        order by t.state, t.queue limit 1
    ) from asking where asking.name is not null
),

held (name) as (
    (
        select held_source from sink.turn
        where held_source is not null and state = 'scheduled'
        order by held_source limit 1
    )
    union all
    select (
        select t.held_source from sink.turn as t
        where t.held_source is not null and t.state = 'scheduled' and t.held_source > held.name
        order by t.held_source limit 1
    ) from held where held.name is not null
),

pending (name) as (
    (
        select destination from sink.outbox
        where state = 'pending' and blocked_by is null
        order by destination limit 1
    )
    union all
    select (
        select o.destination from sink.outbox as o
        where o.state = 'pending' and o.blocked_by is null and o.destination > pending.name
        order by o.destination limit 1
    ) from pending where pending.name is not null
),

stuck (state, name) as (
    select s.state, (
        select o.destination from sink.outbox as o where o.state = s.state order by o.state, o.destination limit 1
    )
    from (values ('dead'), ('unknown')) as s (state)
    union all
    select stuck.state, (
        select o.destination from sink.outbox as o
        where o.state = stuck.state and o.destination > stuck.name
        order by o.state, o.destination limit 1
    ) from stuck where stuck.name is not null
),

noted (name) as (
    (select queue from sink.notice order by queue limit 1)
    union all
    select (
        select n.queue from sink.notice as n where n.queue > noted.name order by n.queue limit 1
    ) from noted where noted.name is not null
)

select found.kind, found.name
from (
    select 'queue' as kind, name from queued
    union
    select 'queue', name from scheduled
    union
    select 'queue', name from sealed
    union
    select 'queue', name from asking
    union
    select 'queue', name from noted
    union
    -- What runs now is bounded by the agents that run it.
    select 'queue', queue from (
        select queue from sink.turn where state = 'processing' order by lease_expires_at, id limit :rows_max
    ) as processing
    union
    select 'source', name from held
    union
    select 'destination', name from pending
    union
    select 'destination', name from stuck
    union
    select 'destination', destination from (
        select destination from sink.outbox where state = 'sending' order by lease_expires_at, id limit :rows_max
    ) as sending
) as found
where found.name is not null
order by found.kind, found.name
limit :rows_max;

-- name: queue_load
-- How many turns of these queues are where, each counted up to a bound.
select
    q.queue,
    (
        select count(*) from (
            select from sink.turn as t where t.state = 'scheduled' and t.queue = q.queue
            order by t.queue limit :count_max
        ) as part
    ) as scheduled,
    (
        select count(*) from (
            select from sink.turn as t where t.state = 'waiting' and t.queue = q.queue
            order by t.queue limit :count_max
        ) as part
    ) as waiting,
    (
        select count(*) from (
            select from sink.turn as t where t.state = 'queued' and t.queue = q.queue
            order by t.queue limit :count_max
        ) as part
    ) as queued,
    (
        select count(*) from (
            select queue from sink.turn where state = 'processing' order by lease_expires_at, id limit :rows_max
        ) as part where part.queue = q.queue
    ) as processing,
    (
        select count(*) from (
            select from sink.turn as t
            where t.state in ('parked', 'held', 'escalated') and t.state = 'parked' and t.queue = q.queue
            order by t.state, t.queue limit :count_max
        ) as part
    ) as parked,
    (
        select count(*) from (
            select from sink.turn as t
            where t.state in ('parked', 'held', 'escalated') and t.state = 'held' and t.queue = q.queue
            order by t.state, t.queue limit :count_max
        ) as part
    ) as held,
    (
        select count(*) from (
            select from sink.turn as t
            where t.state in ('parked', 'held', 'escalated') and t.state = 'escalated' and t.queue = q.queue
            order by t.state, t.queue limit :count_max
        ) as part
    ) as escalated,
    (
        select count(*) from (
            select from sink.turn as t where t.state = 'sealed' and t.queue = q.queue
            order by t.queue limit :count_max
        ) as part
    ) as sealed,
    (
        select count(*) from (
            select from sink.turn as t where t.state = 'failed' and t.queue = q.queue
            order by t.queue limit :count_max
        ) as part
    ) as failed,
    (
        select count(*) from (
            select from sink.turn as t where t.state = 'undelivered' and t.queue = q.queue
            order by t.queue limit :count_max
        ) as part
    ) as undelivered
from unnest(:queues::text[]) as q (queue);

-- name: source_load
-- How many turns these sources hold up, each counted up to a bound, and when the first of them came.
select
    s.source,
    (
        select count(*) from (
            select from sink.turn as t
            where t.held_source is not null and t.held_source = s.source and t.state = 'scheduled'
            order by t.held_source limit :count_max
        ) as part
    ) as held,
    (
        select extract(epoch from sink.now() - t.created_at)::double precision from sink.turn as t
        where t.held_source is not null and t.held_source = s.source and t.state = 'scheduled'
        order by t.held_source, t.created_at, t.id limit 1
    ) as oldest_seconds
from unnest(:sources::text[]) as s (source);

-- name: destination_load
-- How many messages of these destinations are where, each counted up to a bound.
select
    d.name,
    (
        select count(*) from (
            select from sink.outbox as o
            where o.destination = d.name and o.state = 'pending' and o.blocked_by is null
            order by o.destination limit :count_max
        ) as part
    ) as pending,
    (
        select count(*) from (
            select destination from sink.outbox where state = 'sending' order by lease_expires_at, id limit :rows_max
        ) as part where part.destination = d.name
    ) as sending,
    (
        select count(*) from (
            select from sink.outbox as o where o.state = 'dead' and o.destination = d.name
            order by o.destination limit :count_max
        ) as part
    ) as dead,
    (
        select count(*) from (
            select from sink.outbox as o where o.state = 'unknown' and o.destination = d.name
            order by o.destination limit :count_max
        ) as part
    ) as unknown
from unnest(:destinations::text[]) as d (name);

-- name: count_waiting
-- How many turns of a queue have not come to an agent yet, counted up to a bound.
select count(*) as waiting
from (
    (select 1 from sink.turn where state = 'queued' and queue = :queue order by queue limit :count_max)
    union all
    (select 1 from sink.turn where state = 'waiting' and queue = :queue order by queue limit :count_max)
    union all
    (select 1 from sink.turn where state = 'scheduled' and queue = :queue order by queue limit :count_max)
    limit :count_max -- noqa: AM09
) as part;

-- name: oldest_turns
-- How old the oldest turn of each queue is in each open state. Turns are numbered as they come, so that where an index
-- ends in the id one entry tells; elsewhere the oldest of a bounded number does.
select
    found.queue,
    found.state,
    extract(epoch from sink.now() - min(found.created_at))::double precision as age_seconds
from (
    select q.queue, s.state, oldest.created_at
    from unnest(:queues::text[]) as q (queue)
    cross join (values ('failed'), ('undelivered')) as s (state)
    cross join lateral (
        select t.created_at from sink.turn as t
        where t.state in ('failed', 'undelivered', 'cancelled') and t.state = s.state and t.queue = q.queue
        order by t.state, t.queue, t.id limit 1
    ) as oldest
    union all
    select q.queue, s.state, oldest.created_at
    from unnest(:queues::text[]) as q (queue)
    cross join (values ('parked'), ('held'), ('escalated')) as s (state)
    cross join lateral (
        select t.created_at from sink.turn as t
        where t.state in ('parked', 'held', 'escalated') and t.state = s.state and t.queue = q.queue
        order by t.state, t.queue, t.id limit 1
    ) as oldest
    union all
    select q.queue, 'sealed', oldest.created_at
    from unnest(:queues::text[]) as q (queue)
    cross join lateral (
        select t.created_at from sink.turn as t
        where t.state = 'sealed' and t.queue = q.queue
        order by t.queue, t.id limit 1
    ) as oldest
    union all
    select q.queue, 'waiting', some_of_them.created_at
    from unnest(:queues::text[]) as q (queue)
    cross join lateral (
        select t.created_at from sink.turn as t
        where t.state = 'waiting' and t.queue = q.queue
        order by t.queue, t.conversation, t.lane_seq limit :rows_max
    ) as some_of_them
    union all
    select running.queue, 'processing', running.created_at
    from (
        select t.queue, t.created_at from sink.turn as t
        where t.state = 'processing'
        order by t.lease_expires_at, t.id limit :rows_max
    ) as running
    where running.queue = any(:queues::text[])
) as found
group by found.queue, found.state;
