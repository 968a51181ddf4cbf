-- name: enter_delivery_lanes
-- Give each delivery lane that these messages enter as many places as it needs, under its lock.
with entering as (
    select lane.queue, lane.conversation, lane.destination, count(*) as messages
    from unnest(:queues::text[], :conversations::text[], :destinations::text[])
        as lane (queue, conversation, destination)
    group by 1, 2, 3
    order by lane.queue collate "C", lane.conversation collate "C", lane.destination collate "C"
),

lane as (
    insert into sink.delivery_lane as l (queue, conversation, destination, tail)
    select * from entering
    on conflict (queue, conversation, destination) do update set tail = l.tail + excluded.tail
    returning l.queue, l.conversation, l.destination, l.tail
)

select lane.queue, lane.conversation, lane.destination, lane.tail - entering.messages as tail
from lane
inner join entering using (queue, conversation, destination);

-- name: add_messages
-- Record the messages of sets, each behind the last open one of its lane, or of its set where order is strict. Its
-- snapshot is younger than the locks on the lanes, so nobody before it is missed. What is held stands behind nobody.
with item as (
    select * from unnest(
        :messages::uuid[], :turns::uuid[], :seals::int[], :positions::int[], :queues::text[], :conversations::text[],
        :destinations::text[], :places::bigint[], :behind::uuid[], :strict::boolean[], :states::text[],
        :delays::double precision[], :keys::text[], :recipients::text[], :headers::text[], :content_types::text[],
        :bodies::bytea[], :hashes::bytea[], :addresses::text[], :replies_of::uuid[], :expiries::timestamptz[],
        :paces::double precision[]
    ) as t (
        message, turn, seal, position, queue, conversation,
        destination, place, behind, is_strict, state,
        delay_seconds, key, recipient, headers, content_type,
        body, hash, address, reply_of, expires_at, pace_seconds
    )
),

blocked as (
    select
        item.*,
        coalesce(
            item.behind,
            case
                when item.place is not null then (
                    select o.id from sink.outbox as o
                    where
                        o.queue = item.queue and o.conversation = item.conversation
                        and o.destination = item.destination and o.place < item.place
                        and o.state in ('pending', 'sending') and not o.left_lane and o.conversation is not null
                    order by o.place desc limit 1
                )
            end
        ) as blocked_by
    from item
),

added as (
    insert into sink.outbox (
        id, turn, seal, position, queue, conversation, destination, place, strict, state, blocked_by, delay_seconds,
        pace_seconds, expires_at, due_at, due_since
    )
    select
        message, turn, seal, position, queue, conversation, destination, place, is_strict, state, blocked_by,
        delay_seconds, pace_seconds, expires_at,
        sink.now() + make_interval(secs => delay_seconds),
        case when blocked_by is null and state = 'pending' then sink.now() + make_interval(secs => delay_seconds) end
    from blocked
),

said as (
    insert into sink.outbox_payload (
        message, key, recipient, headers, content_type, body, hash, sealed_at, address, reply_of
    )
    select message, key, recipient, headers::jsonb, content_type, body, hash, sink.now(), address, reply_of from item
)

insert into sink.event (turn, message, verb, to_state)
select turn, message, :verb, state from item
order by turn, position;

-- name: let_messages_go
-- Held messages become pending at the places that they get now, each behind the last open one of its lane, or of its
-- set where order is strict. Its snapshot is younger than the locks on the lanes, so nobody before it is missed.
with item as (
    select * from unnest(:messages::uuid[], :places::bigint[], :behind::uuid[], :verbs::text[])
        as t (message, place, behind, verb)
),

blocked as (
    select
        item.message,
        item.place,
        item.verb,
        coalesce(
            item.behind,
            case
                when item.place is not null then (
                    select p.id from sink.outbox as p
                    where
                        p.queue = o.queue and p.conversation = o.conversation and p.destination = o.destination
                        and p.place < item.place
                        and p.state in ('pending', 'sending') and not p.left_lane and p.conversation is not null
                    order by p.place desc limit 1
                )
            end
        ) as blocked_by
    from item
    inner join sink.outbox as o on o.id = item.message
),

gone as (
    update sink.outbox as o
    set
        state = 'pending',
        place = blocked.place,
        blocked_by = blocked.blocked_by,
        due_at = sink.now() + make_interval(secs => o.delay_seconds),
        due_since = case when blocked.blocked_by is null then sink.now() + make_interval(secs => o.delay_seconds) end
    from blocked
    where o.id = blocked.message and o.state = 'held'
    returning o.id, o.turn, o.position, blocked.verb
)

insert into sink.event (turn, message, verb, from_state, to_state)
select turn, id, verb, 'held', 'pending' from gone
order by turn, position;
