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

-- name: record_sets
-- Record sets: turns whose token holds leave processing with their seal, and their messages are added, each behind the
-- last open one of its lane, or of its set where order is strict. What is held stands behind nobody. A turn that leaves
-- its lane gives it to the lowest who waits. A set that takes the place of another comes without a turn. Its snapshot
-- is younger than the locks on turns and lanes, so nobody who waits and nobody before is missed.
with item as (
    select * from unnest(
        :turns::uuid[], :tokens::uuid[], :request_hashes::bytea[], :payload_hashes::bytea[], :turn_states::text[],
        :deadlines::double precision[], :leave_lane::boolean[]
    ) as t (turn, token, request_hash, payload_hash, state, deadline_seconds, leaves_lane)
),

sealed as (
    update sink.turn as t
    set
        state = item.state,
        seal = t.seal + 1,
        payload_hash = item.payload_hash,
        deadline_at = sink.now() + make_interval(secs => item.deadline_seconds),
        token = null,
        lease_seconds = null,
        lease_expires_at = null
    from item
    where t.id = item.turn and t.token = item.token
    returning
        t.id, t.queue, t.conversation, t.state, t.attempt, item.request_hash, item.payload_hash, item.leaves_lane
),

ended as (
    update sink.attempt as a
    set ended = 'sealed', ended_at = sink.now(), request_hash = sealed.request_hash
    from sealed
    where a.turn = sealed.id and a.number = sealed.attempt
    returning a.turn, a.claimed_at
),

freed as (
    select sealed.id as turn, l.queue, l.conversation, (
        select w.id from sink.turn as w
        where w.queue = l.queue and w.conversation = l.conversation and w.state = 'waiting'
        order by w.lane_seq limit 1
    ) as next
    from sealed
    inner join sink.lane as l
        on l.queue = sealed.queue and l.conversation = sealed.conversation and l.holder = sealed.id
    where sealed.leaves_lane
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
    returning t.id
),

message as (
    -- What is absent is as usual.
    select
        t.id, t.turn, t.seal, t.position, t.queue, t.conversation, t.destination, t.place, t.behind,
        coalesce(t.is_strict, false) as is_strict, t.state, coalesce(t.delay_seconds, 0) as delay_seconds,
        t.expires_at, coalesce(t.pace_seconds, 0) as pace_seconds
    from unnest(
        :messages::uuid[], :message_turns::uuid[], :seals::int[], :positions::int[], :queues::text[],
        :conversations::text[], :destinations::text[], :places::bigint[], :behind::uuid[], :strict::boolean[],
        :states::text[], :delays::double precision[], :expiries::timestamptz[], :paces::double precision[]
    ) as t (
        id, turn, seal, position, queue,
        conversation, destination, place, behind, is_strict,
        state, delay_seconds, expires_at, pace_seconds
    )
),

blocked as (
    select message.*, coalesce(message.behind, before.id) as blocked_by
    from message
    left join lateral (
        select o.id from sink.outbox as o
        where
            message.behind is null and message.place is not null
            and o.queue = message.queue and o.conversation = message.conversation
            and o.destination = message.destination and o.place < message.place
            and o.state in ('pending', 'sending') and not o.left_lane and o.conversation is not null
        order by o.place desc limit 1
    ) as before on true
),

added as (
    insert into sink.outbox (
        id, turn, seal, position, queue, conversation, destination, place, strict, state, blocked_by, delay_seconds,
        pace_seconds, expires_at, due_at, due_since
    )
    select
        id, turn, seal, position, queue, conversation, destination, place, is_strict, state, blocked_by,
        delay_seconds, pace_seconds, expires_at,
        sink.now() + make_interval(secs => delay_seconds),
        case when blocked_by is null and state = 'pending' then sink.now() + make_interval(secs => delay_seconds) end
    from blocked
),

said as (
    insert into sink.outbox_payload (
        message, key, recipient, headers, content_type, body, hash, sealed_at, address, reply_of
    )
    -- Bodies go no way but this one.
    select
        message, key, recipient, coalesce(headers, '{}')::jsonb, content_type, body, hash, sink.now(), address, reply_of
    from unnest(
        :messages::uuid[], :keys::text[], :recipients::text[], :headers::text[], :content_types::text[],
        :bodies::bytea[], :hashes::bytea[], :addresses::text[], :replies_of::uuid[]
    ) as t (message, key, recipient, headers, content_type, body, hash, address, reply_of)
),

noted as (
    insert into sink.event (turn, message, verb, from_state, to_state, attempt, detail)
    select
        id, null::uuid, 'seal', 'processing', state, attempt,
        jsonb_build_object('payload_hash', 'sha256:' || encode(payload_hash, 'hex'))
    from sealed
    union all
    select id, null, 'promote', 'waiting', 'queued', null, null
    from promoted
    union all
    -- As they were given: set by set, in their order.
    select turn, id, :verb, null, state, null, null
    from message
)

select
    turn,
    extract(epoch from sink.now() - claimed_at)::double precision as held_seconds,
    turn in (select freed.turn from freed where freed.next is not null) as promotes
from ended;

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
