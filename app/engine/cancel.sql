-- name: make_lanes
-- Lock the lanes of these turns, in order. A scheduled turn may be the first of its conversation: then its lane is
-- made, to be locked against its becoming due.
insert into sink.lane as l (queue, conversation, tail)
select queue, conversation, 0
from sink.turn
where id = any(:turns) and conversation is not null
group by queue, conversation
order by queue collate "C", conversation collate "C"
on conflict (queue, conversation) do update set tail = l.tail;

-- name: cancel_turns
-- Turns that have not sealed are wanted no more. Their token is dropped, so whoever holds them has lost them. Its
-- caller has locked them in an earlier statement, so that this one sees the attempt of a claim that came first.
with held as (
    select id, state from sink.turn where id = any(:turns)
),

cancelled as (
    update sink.turn as t
    set
        state = 'cancelled', reason = 'cancelled', token = null, lease_seconds = null, lease_expires_at = null,
        deadline_at = null
    from held
    where
        t.id = held.id
        and t.state in ('scheduled', 'waiting', 'queued', 'processing', 'parked', 'held', 'escalated', 'failed')
    returning t.id, t.attempt, t.seal, t.payload_hash, held.state as from_state
),

ended as (
    update sink.attempt as a
    set ended = 'cancelled', ended_at = sink.now(), reason = 'cancelled'
    from cancelled
    where a.turn = cancelled.id and a.number = cancelled.attempt and cancelled.from_state = 'processing'
),

waited as (
    update sink.wait as w
    set ended = 'cancelled', ended_at = sink.now()
    from cancelled
    where w.turn = cancelled.id and w.attempt = cancelled.attempt and cancelled.from_state = 'parked'
),

noted as (
    insert into sink.event (turn, verb, from_state, to_state, attempt, reason, detail)
    select id, 'cancel', from_state, 'cancelled', nullif(attempt, 0), 'cancelled', jsonb_build_object('by', :by::text)
    from cancelled
)

select
    held.id, coalesce(cancelled.from_state, held.state) as from_state, cancelled.id is not null as is_cancelled,
    cancelled.seal, cancelled.payload_hash
from held
left join cancelled using (id);

-- name: find_undelivered
-- The messages of these turns' live seals that are not confirmed.
select o.id
from sink.outbox as o
inner join sink.turn as t on t.id = o.turn and t.seal = o.seal
where o.turn = any(:turns) and o.state not in ('delivered', 'cancelled');

-- name: lock_messages
-- Lock these messages, in order, after their turns and delivery lanes.
select id from sink.outbox
where id = any(:messages)
order by id
for no key update;

-- name: cancel_messages
-- Messages that are wanted no more. One that is being sent gets no next attempt. Its caller has locked them in an
-- earlier statement.
with held as (
    select id, turn, state from sink.outbox where id = any(:messages)
),

asked as (
    update sink.outbox as o
    set cancel_asked = true
    from held
    where o.id = held.id and o.state = 'sending' and not o.cancel_asked
    returning o.id
),

cancelled as (
    update sink.outbox as o
    set
        state = 'cancelled',
        reason = 'cancelled',
        blocked_by = null,
        due_since = coalesce(o.due_since, o.due_at)
    from held
    where o.id = held.id and o.state in ('pending', 'dead', 'unknown')
    returning o.id, o.turn, o.state, held.state as from_state
),

noted as (
    insert into sink.event (turn, message, verb, from_state, to_state, reason, detail)
    select turn, id, 'cancel', from_state, 'cancelled', 'cancelled', jsonb_build_object('by', :by::text)
    from cancelled
)

select
    held.id,
    held.turn,
    coalesce(cancelled.state, held.state) as state,
    cancelled.id is not null as is_cancelled,
    cancelled.id is not null or asked.id is not null as is_changed
from held
left join cancelled using (id)
left join asked using (id);
