-- name: find_waiting
-- Parked turns whose deadline is over, longest first.
select id
from sink.turn
where state = 'parked' and deadline_at <= sink.now()
order by deadline_at, id
limit :turns_max;

-- name: lock_waiting
-- Lock these turns, in order: those whose deadline still is over. They are looked for by their ids, and not among all
-- whose deadline is. Parked turns hold their lanes, so nobody promotes them.
with chosen as materialized (
    select id, state, deadline_at from sink.turn
    where id = any(:turns)
    order by id
    for no key update
)

select id from chosen
where state = 'parked' and deadline_at <= sink.now();

-- name: wake_turns
-- Parked turns run again, due from now on. Each is as old as it was when it parked: who waits does not age. Its caller
-- has locked them in an earlier statement, so that this one sees what they wait for.
with item as (
    select * from unnest(:turns::uuid[], :numbers::int[]) as t (turn, number)
),

woken as (
    update sink.turn as t
    set
        state = 'queued',
        deadline_at = null,
        due_at = sink.now(),
        ages_from
        = coalesce(t.ages_from, t.created_at) + make_interval(secs => extract(epoch from sink.now() - w.asked_at)),
        said_bytes = coalesce(octet_length(s.body), t.said_bytes)
    from item
    inner join sink.wait as w on w.turn = item.turn and w.ended is null
    left join sink.signal as s on s.turn = w.turn and s.name = w.name and s.number = item.number
    where t.id = item.turn and t.state = 'parked' and w.attempt = t.attempt
    returning
        t.id, t.attempt, w.name, item.number, s.sent_with as told_by,
        -- What was decided, where a person was asked.
        case when s.turn is not null then w.payload_hash end as payload_hash
),

ended as (
    update sink.wait as w
    set
        ended = case when woken.number is null then 'deadline' else 'signal' end,
        ended_at = sink.now(),
        signal = woken.number
    from woken
    where w.turn = woken.id and w.attempt = woken.attempt
),

noted as (
    insert into sink.event (turn, verb, from_state, to_state, attempt, reason, detail)
    select
        id, 'wake', 'parked', 'queued', attempt, case when number is null then 'deadline' else 'signal' end,
        jsonb_strip_nulls(jsonb_build_object('name', name, 'by', told_by, 'payload_hash', payload_hash))
    from woken
)

select id from woken;
