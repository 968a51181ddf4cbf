-- name: find_too_old
-- Turns of these queues whose input is too old, among those that are next: a claim has seen some of them.
select found.id
from unnest(:queues::text[], :ages_max::double precision[]) as q (queue, age_seconds_max)
cross join lateral (
    select t.id, t.due_at, coalesce(t.ages_from, t.created_at) as ages_from
    from sink.turn as t
    where t.queue = q.queue and t.state = 'queued'
    order by t.queue, t.priority desc, t.due_at, t.id
    limit :turns_max
) as found
where found.due_at <= sink.now() and found.ages_from < sink.now() - make_interval(secs => q.age_seconds_max);

-- name: fail_too_old
-- Turns whose input is too old to be worth an attempt. The caller has locked them, behind their lanes, in earlier
-- statements.
with old as materialized (
    select t.id
    from sink.turn as t
    inner join unnest(:queues::text[], :ages_max::double precision[]) as q (queue, age_seconds_max)
        on q.queue = t.queue
    where
        t.id = any(:turns) and t.due_at <= sink.now()
        and coalesce(t.ages_from, t.created_at) < sink.now() - make_interval(secs => q.age_seconds_max)
),

failed as (
    update sink.turn as t
    set state = 'failed', reason = 'too_old'
    from old
    where t.id = old.id and t.state = 'queued'
    returning t.id, t.queue
),

noted as (
    insert into sink.event (turn, verb, from_state, to_state, reason)
    select id, 'claim', 'queued', 'failed', 'too_old' from failed
),

telling as (
    insert into sink.notice (turn, queue, kind, reason, noted_at)
    select id, queue, 'escalation', 'too_old', sink.now() from failed
)

select id from failed;
