-- name: seal_turns
-- Turns whose token holds leave processing with their seal. An empty set has nothing to confirm and is replied. The
-- places in the delivery lanes are given here, under their locks, so that the next statement can see who is before.
with item as (
    select * from unnest(
        :turns::uuid[], :tokens::uuid[], :request_hashes::bytea[], :payload_hashes::bytea[], :empty::boolean[]
    ) as t (turn, token, request_hash, payload_hash, is_empty)
),

held as materialized (
    select t.id
    from item
    inner join sink.turn as t on t.id = item.turn and t.token = item.token
    order by t.id
    for no key update of t
),

sealed as (
    update sink.turn as t
    set
        state = case when item.is_empty then 'replied' else 'sealed' end,
        seal = t.seal + 1,
        payload_hash = item.payload_hash,
        token = null,
        lease_seconds = null,
        lease_expires_at = null
    from held, item
    where t.id = held.id and item.turn = t.id and t.token = item.token
    returning t.id, t.queue, t.state, t.seal, t.attempt, item.request_hash, item.payload_hash
),

ended as (
    update sink.attempt as a
    set ended = 'sealed', ended_at = sink.now(), request_hash = sealed.request_hash
    from sealed
    where a.turn = sealed.id and a.number = sealed.attempt
),

noted as (
    insert into sink.event (turn, verb, from_state, to_state, attempt, detail)
    select
        id, 'seal', 'processing', state, attempt,
        jsonb_build_object('payload_hash', 'sha256:' || encode(payload_hash, 'hex'))
    from sealed
),

entering as (
    select sealed.queue, lane.conversation, lane.destination, count(*) as messages
    from unnest(:lane_turns::uuid[], :lane_conversations::text[], :lane_destinations::text[])
        as lane (turn, conversation, destination)
    inner join sealed on sealed.id = lane.turn
    group by 1, 2, 3
    order by sealed.queue collate "C", lane.conversation collate "C", lane.destination collate "C"
),

lane as (
    insert into sink.delivery_lane as l (queue, conversation, destination, tail)
    select * from entering
    on conflict (queue, conversation, destination) do update set tail = l.tail + excluded.tail
    returning l.queue, l.conversation, l.destination, l.tail
)

select id, queue, state, seal, null as conversation, null as destination, null as tail
from sealed
union all
select null, lane.queue, null, null, lane.conversation, lane.destination, lane.tail - entering.messages
from lane
inner join entering using (queue, conversation, destination);

-- name: add_messages
-- Record the messages of the sealed turns, each behind the last open one of its lane, or of its set where order is
-- strict. Its snapshot is younger than the locks on the lanes, so nobody before it is missed.
with item as (
    select * from unnest(
        :messages::uuid[], :turns::uuid[], :seals::int[], :positions::int[], :queues::text[], :conversations::text[],
        :destinations::text[], :places::bigint[], :behind::uuid[], :strict::boolean[], :delays::double precision[],
        :keys::text[], :recipients::text[], :headers::text[], :content_types::text[], :bodies::bytea[],
        :hashes::bytea[], :addresses::text[], :replies_of::uuid[], :expiries::timestamptz[], :paces::double precision[]
    ) as t (
        message, turn, seal, position, queue, conversation,
        destination, place, behind, is_strict, delay_seconds,
        key, recipient, headers, content_type, body,
        hash, address, reply_of, expires_at, pace_seconds
    )
),

blocked as (
    select
        item.*,
        coalesce(
            item.behind,
            case
                when item.conversation is not null then (
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
        message, turn, seal, position, queue, conversation, destination, place, is_strict, 'pending', blocked_by,
        delay_seconds, pace_seconds, expires_at,
        sink.now() + make_interval(secs => delay_seconds),
        case when blocked_by is null then sink.now() + make_interval(secs => delay_seconds) end
    from blocked
),

said as (
    insert into sink.outbox_payload (
        message, key, recipient, headers, content_type, body, hash, sealed_at, address, reply_of
    )
    select message, key, recipient, headers::jsonb, content_type, body, hash, sink.now(), address, reply_of from item
)

insert into sink.event (turn, message, verb, to_state)
select turn, message, 'seal', 'pending' from item
order by turn, position;

-- name: find_sealed
-- The messages of these turns' live seals, for an answer that is given again.
select o.id, o.turn, o.state, p.key
from sink.outbox as o
inner join sink.turn as t on t.id = o.turn and t.seal = o.seal
inner join sink.outbox_payload as p on p.message = o.id
where o.turn = any(:turns)
order by o.turn, o.position;
