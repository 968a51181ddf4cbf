-- name: find_notices
-- Who is to be told of what, in these queues: one row for each turn and kind, with the first of its notices. Each queue
-- in turn, so that a long list of one keeps nobody else waiting, and what is not configured here is not even looked at.
select found.id, found.turn, found.kind
from (
    select
        first.id, first.turn, first.kind,
        row_number() over (partition by first.queue order by first.id) as rank
    from (
        select n.queue, n.turn, n.kind, min(n.id) as id
        from unnest(:queues::text[]) as q (queue)
        cross join lateral (
            select o.queue, o.turn, o.kind, o.id
            from sink.notice as o
            where o.queue = q.queue
            order by o.queue, o.id
            limit :notices_max
        ) as n
        group by n.queue, n.turn, n.kind
    ) as first
) as found
order by found.rank, found.id
limit :notices_max;

-- name: take_notices
-- Take all that is there about these turns, of the same kind: it is told at once. Whoever has the first of them has
-- them all; what somebody else takes at this moment is left to him.
with first as materialized (
    select n.id, n.turn, n.kind
    from sink.notice as n
    where n.id = any(:notices::bigint[])
    order by n.id
    for update skip locked
),

chosen as materialized (
    select n.id
    from first
    inner join sink.notice as n on n.turn = first.turn and n.kind = first.kind
    order by n.id
    for update of n skip locked
),

taken as (
    delete from sink.notice as n
    using chosen
    where n.id = chosen.id
    returning n.id, n.turn, n.message, n.queue, n.kind, n.reason, n.noted_at
)

select id, turn, message, queue, kind, reason, noted_at
from taken
order by id;

-- name: find_told
-- The turns as they are, with what waits for a person now: the live set that is held, or the wait that asks.
select
    t.id, t.conversation, t.state, t.payload_hash, h.note, h.deadline_at, h.on_deadline, h.reminders,
    w.name, w.note as wait_note, w.payload_hash as wait_hash, w.deadline_at as wait_until
from sink.turn as t
left join sink.hold as h on h.turn = t.id and h.seal = t.seal
left join sink.wait as w on w.turn = t.id and w.attempt = t.attempt and w.ended is null
where t.id = any(:turns) and t.about is null;

-- name: find_told_messages
-- The messages that notices name, and those of the live sets of these turns.
select o.id, o.turn, o.destination, o.state, o.reason
from sink.outbox as o
where o.id = any(:messages)
union
select o.id, o.turn, o.destination, o.state, o.reason
from sink.turn as t
inner join sink.outbox as o on o.turn = t.id and o.seal = t.seal
where t.id = any(:turns)
order by id;

-- name: add_escalations
-- Turns that are born sealed, each with its one message: no input, no attempt, no lane, nobody before it.
with item as (
    select * from unnest(
        :turns::uuid[], :abouts::uuid[], :queues::text[], :payload_hashes::bytea[], :messages::uuid[],
        :destinations::text[], :keys::text[], :content_types::text[], :bodies::bytea[], :hashes::bytea[],
        :kinds::text[], :reasons::text[], :told::text[], :addresses::text[]
    ) as t (
        turn, about, queue, payload_hash, message,
        destination, key, content_type, body, hash,
        kind, reason, told, address
    )
),

born as (
    insert into sink.turn (
        id, queue, priority, state, created_at, due_at, seal, payload_hash, inbound_count, input_bytes, about
    )
    select turn, queue, 0, 'sealed', sink.now(), sink.now(), 1, payload_hash, 0, 0, about from item
),

added as (
    insert into sink.outbox (id, turn, seal, position, queue, destination, state, due_at, due_since)
    select message, turn, 1, 0, queue, destination, 'pending', sink.now(), sink.now() from item
),

said as (
    insert into sink.outbox_payload (message, key, headers, content_type, body, hash, sealed_at, address)
    select message, key, '{}', content_type, body, hash, sink.now(), address from item
)

insert into sink.event (turn, message, verb, to_state, reason, detail)
select
    turn, null, 'escalate', 'sealed', reason,
    jsonb_build_object(
        'about', told, 'kind', kind, 'payload_hash', 'sha256:' || encode(payload_hash, 'hex')
    )
from item
union all
select turn, message, 'escalate', 'pending', null, null from item;
