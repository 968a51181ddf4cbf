-- name: find_expired_holds
-- Held turns whose deadline is over, and escalated ones of which somebody is to be told again, longest first. Those of
-- a queue that is not known here wait for somebody who knows it: however many they are, they are not even looked at.
select late.id, late.state = 'held' and h.on_deadline = 'send' as is_sent
from unnest(:queues::text[]) as q (queue)
cross join lateral (
    select t.id, t.state, t.seal, t.deadline_at
    from sink.turn as t
    where t.state in ('held', 'escalated') and t.queue = q.queue and t.deadline_at <= sink.now()
    order by t.queue, t.deadline_at, t.id
    limit :turns_max
) as late
inner join sink.hold as h on h.turn = late.id and h.seal = late.seal
order by late.deadline_at, late.id
limit :turns_max;

-- name: escalate_holds
-- Held turns nobody has decided about until their deadline, and those that still nobody has: somebody is told, and told
-- again later. The caller has locked the turns in an earlier statement.
with item as (
    select * from unnest(
        :turns::uuid[], :from_states::text[], :seconds::double precision[], :details::text[]
    ) as t (turn, from_state, seconds, detail)
),

moved as (
    update sink.turn as t
    set state = 'escalated', deadline_at = sink.now() + make_interval(secs => item.seconds)
    from item
    where t.id = item.turn and t.state in ('held', 'escalated') and t.state = item.from_state
    returning t.id, t.queue, t.seal, t.attempt, item.from_state, item.detail
),

counted as (
    update sink.hold as h
    set reminders = h.reminders + 1
    from moved
    where h.turn = moved.id and h.seal = moved.seal and h.decision is null
),

noted as (
    insert into sink.event (turn, verb, from_state, to_state, attempt, reason, detail)
    select id, 'expire', 'held', 'escalated', attempt, :reason::text, detail::jsonb
    from moved
    where from_state = 'held'
    order by id
)

insert into sink.notice (turn, queue, kind, reason, noted_at)
select id, queue, 'escalation', :reason::text, sink.now() from moved
order by id;
