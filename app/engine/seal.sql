-- name: seal_turns
-- Turns whose token holds leave processing with their seal: to be delivered, to wait for a person until a deadline, or
-- replied, where there is nothing to confirm. The places in the delivery lanes are given here, under their locks, so
-- that the next statement can see who is before.
with item as (
    select * from unnest(
        :turns::uuid[], :tokens::uuid[], :request_hashes::bytea[], :payload_hashes::bytea[], :states::text[],
        :deadlines::double precision[]
    ) as t (turn, token, request_hash, payload_hash, state, deadline_seconds)
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
        state = item.state,
        seal = t.seal + 1,
        payload_hash = item.payload_hash,
        deadline_at = sink.now() + make_interval(secs => item.deadline_seconds),
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
