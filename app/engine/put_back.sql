-- name: lock_held
-- The turns that these tokens hold, locked in order. With lapsed only those whose lease is over.
select t.id, t.token, t.queue, t.attempt, t.attempts_used, t.releases
from unnest(:turns::uuid[], :tokens::uuid[]) as item (turn, token)
inner join sink.turn as t on t.id = item.turn and t.token = item.token
where not :lapsed or t.lease_expires_at <= sink.now()
order by t.id
for no key update of t;

-- name: put_back
-- The turns leave processing: queued again, later perhaps, or failed. The attempt keeps the token and how it ended.
with item as (
    select * from unnest(
        :turns::uuid[], :tokens::uuid[], :states::text[], :reasons::text[], :turn_reasons::text[],
        :delays::double precision[], :counted::boolean[], :releases::int[], :ended::text[], :verbs::text[]
    ) as t (turn, token, state, reason, turn_reason, delay_seconds, counted, releases, ended, verb)
),

moved as (
    update sink.turn as t
    set
        state = item.state,
        reason = item.turn_reason,
        token = null,
        lease_seconds = null,
        lease_expires_at = null,
        due_at
        -- Neither counted nor a release: nobody heard of it, and it keeps its place.
        = case
            when item.state = 'queued' and (item.counted or item.releases > 0)
                then sink.now() + make_interval(secs => item.delay_seconds)
            else t.due_at
        end,
        attempts_used = t.attempts_used - (not item.counted)::int,
        releases = t.releases + item.releases
    from item
    where t.id = item.turn and t.token = item.token
    returning t.id, t.queue, t.state, t.attempt, item.reason, item.ended, item.verb, item.turn_reason
),

ended as (
    update sink.attempt as a
    set ended = moved.ended, ended_at = sink.now(), reason = moved.reason
    from moved
    where a.turn = moved.id and a.number = moved.attempt
    returning a.turn, a.usage
),

noted as (
    insert into sink.event (turn, verb, from_state, to_state, attempt, reason)
    select id, verb, 'processing', state, attempt, reason from moved
),

-- Somebody is told of it, however the process ends that ended it.
telling as (
    insert into sink.notice (turn, queue, kind, reason, noted_at)
    select id, queue, 'escalation', turn_reason, sink.now() from moved where state = 'failed'
)

select moved.id, moved.queue, moved.state, ended.usage
from moved
left join ended on ended.turn = moved.id;
