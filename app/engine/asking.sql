-- name: open_holds
-- What waits for a decision, whatever is configured: queues are walked one by one, and of each the oldest of a bounded
-- number is told.
with recursive asking (state, name) as (
    select s.state, (
        select t.queue from sink.turn as t
        where t.state in ('parked', 'held', 'escalated') and t.state = s.state
        order by t.state, t.queue limit 1
    )
    from (values ('held'), ('escalated')) as s (state)
    union all
    select asking.state, (
        select t.queue from sink.turn as t
        where t.state in ('parked', 'held', 'escalated') and t.state = asking.state and t.queue > asking.name
        order by t.state, t.queue limit 1
    )
    from asking where asking.name is not null
)

select
    asking.name as queue,
    asking.state,
    count(*) as count,
    coalesce(extract(epoch from sink.now() - min(h.held_at)), 0)::double precision as oldest_seconds
from (select state, name from asking where name is not null order by name, state limit :queues_max) as asking
cross join lateral (
    select t.id, t.seal from sink.turn as t
    where t.state in ('parked', 'held', 'escalated') and t.state = asking.state and t.queue = asking.name
    order by t.state, t.queue, t.id limit :rows_max
) as some_of_them
left join sink.hold as h on h.turn = some_of_them.id and h.seal = some_of_them.seal
group by asking.name, asking.state
order by asking.name, asking.state;

-- name: waiting_notices
-- Of what nobody has been told yet, by queue.
with recursive noted (name) as (
    (select queue from sink.notice order by queue limit 1)
    union all
    select (
        select n.queue from sink.notice as n where n.queue > noted.name order by n.queue limit 1
    )
    from noted where noted.name is not null
)

select
    noted.name as queue,
    count(*) as count,
    extract(epoch from sink.now() - min(some_of_them.noted_at))::double precision as oldest_seconds
from (select name from noted where name is not null order by name limit :queues_max) as noted
cross join lateral (
    select n.noted_at from sink.notice as n
    where n.queue = noted.name
    order by n.queue, n.id limit :rows_max
) as some_of_them
group by noted.name
order by noted.name;
