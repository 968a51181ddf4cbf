-- name: lock_lanes
-- Lock the lanes of these turns, in order. Comes before any lock on a turn.
select l.queue, l.conversation
from sink.lane as l
where (l.queue, l.conversation) in (
    select t.queue, t.conversation from sink.turn as t where t.id = any(:turns) and t.conversation is not null
)
order by l.queue, l.conversation
for no key update;

-- name: lock_turns
-- Lock these turns, in order. The next statement sees them as they are from now on, with their attempts and messages.
select id from sink.turn
where id = any(:turns)
order by id
for no key update;

-- name: promote_turns
-- Free the lanes that these turns held: each goes to its lowest waiting turn, if one waits. Its caller holds the lanes'
-- locks, and has moved the turns in an earlier statement, so that this one sees who waits now.
with freed as (
    select l.queue, l.conversation, (
        select w.id from sink.turn as w
        where w.queue = l.queue and w.conversation = l.conversation and w.state = 'waiting'
        order by w.lane_seq limit 1
    ) as next
    from sink.lane as l
    inner join sink.turn as t on t.queue = l.queue and t.conversation = l.conversation and l.holder = t.id
    where t.id = any(:turns)
),

lane as (
    update sink.lane as l
    set holder = freed.next
    from freed
    where l.queue = freed.queue and l.conversation = freed.conversation
),

promoted as (
    update sink.turn as t
    set state = 'queued'
    from freed
    where t.id = freed.next and t.state = 'waiting'
    returning t.id, t.queue
),

noted as (
    insert into sink.event (turn, verb, from_state, to_state)
    select id, 'promote', 'waiting', 'queued' from promoted
)

select id, queue from promoted;
