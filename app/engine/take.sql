-- name: take_messages
-- Lease due, unblocked messages, up to the free slots of each destination, and count the attempt before its first byte.
-- A destination with a long backlog takes no slot of another. Locked rows are skipped, so a take never waits.
with slot as (
    select * from unnest(:destinations::text[], :counts::int[], :leases::double precision[])
        as t (destination, free, lease_seconds)
),

due as materialized (
    select picked.id, slot.lease_seconds
    from slot
    cross join lateral (
        select o.id
        from sink.outbox as o
        where
            o.destination = slot.destination and o.state = 'pending' and o.blocked_by is null
            and o.due_at <= sink.now()
        order by o.due_at, o.id
        limit slot.free
        for update skip locked
    ) as picked
),

taken as (
    update sink.outbox as o
    set
        state = 'sending',
        reason = null,
        attempts = o.attempts + 1,
        attempts_used = o.attempts_used + 1,
        attempt_id = gen_random_uuid(),
        lease_expires_at = sink.now() + make_interval(secs => due.lease_seconds)
    from due
    where o.id = due.id
    returning o.*
),

noted as (
    insert into sink.event (turn, message, verb, from_state, to_state, attempt, attempt_id)
    select turn, id, 'take', 'pending', 'sending', attempts, attempt_id from taken
)

select
    o.id, o.turn, o.attempt_id, o.attempts, o.attempts_used, o.may_have_arrived, o.queue, o.conversation, o.destination,
    o.delay_seconds, o.expires_at,
    greatest(extract(epoch from sink.now() - o.due_since), 0)::double precision as age_seconds,
    p.key, p.recipient, p.headers, p.content_type, p.body, p.hash, p.sealed_at, sink.now() as attempted_at
from taken as o
left join sink.outbox_payload as p on p.message = o.id;

-- name: condemn_messages
-- Messages whose bytes are not those that were sealed are never guessed: they end here, before an attempt.
with spoiled as materialized (
    select o.id
    from sink.outbox as o
    where o.id = any(:messages) and o.state = 'pending'
    order by o.id
    for no key update
),

ended as (
    update sink.outbox as o
    set state = case when o.may_have_arrived then 'unknown' else 'dead' end, reason = 'integrity', blocked_by = null
    from spoiled
    where o.id = spoiled.id and o.state = 'pending'
    returning o.id, o.turn, o.state
),

noted as (
    insert into sink.event (turn, message, verb, from_state, to_state, reason)
    select turn, id, 'take', 'pending', state, 'integrity' from ended
)

select id, turn, state from ended;
