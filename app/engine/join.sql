-- name: add_keys
-- The keys that are new, each for the inbound minted with it. A twin that is being accepted elsewhere is waited for.
-- What a paused source sends is held up, and so is what it sends while others of its still are. What has several keys
-- is new when all of them are: its caller drops those that were new for nothing.
with item as (
    select * from unnest(
        :numbers::int[], :scopes::text[], :key_counts::int[], :body_hashes::bytea[], :inbounds::uuid[],
        :turns::uuid[], :sources::text[]
    ) as t (number, scope, key_count, body_hash, inbound, turn, source)
),

held as (
    select given.source
    from (select distinct source from item) as given
    where
        exists (select from sink.pause as p where p.kind = 'source' and p.name = given.source)
        -- One probe of an index, however many there are.
        or (
            select true from sink.turn as h
            where h.held_source = given.source and h.state = 'scheduled'
            order by h.held_source, h.created_at, h.id limit 1
        )
),

fresh as (
    insert into sink.idempotency_key (scope, key, body_hash, inbound, turn, created_at, expires_at)
    select
        item.scope,
        given.key,
        item.body_hash,
        item.inbound,
        item.turn,
        sink.now(),
        sink.now() + make_interval(secs => :key_seconds)
    from unnest(:key_numbers::int[], :keys::text[]) as given (number, key)
    inner join item using (number)
    order by item.scope collate "C", given.key collate "C", number
    on conflict do nothing
    returning inbound, expires_at
)

select item.inbound, new.expires_at, item.source in (select held.source from held) as is_held
from (select inbound, min(expires_at) as expires_at, count(*) as keys from fresh group by inbound) as new
inner join item on item.inbound = new.inbound and item.key_count = new.keys;

-- name: hold_lanes
-- Lock the lanes of these conversations, making those that are new.
insert into sink.lane as l (queue, conversation, tail)
select item.queue, item.conversation, 0
from unnest(:queues::text[], :conversations::text[]) as item (queue, conversation)
group by item.queue, item.conversation
order by item.queue collate "C", item.conversation collate "C"
on conflict (queue, conversation) do update set tail = l.tail
returning l.queue, l.conversation, l.tail, l.holder;

-- name: hold_joinable
-- The last turn of each lane, if it was never claimed: locked, so that no claim takes it while it is joined. Its
-- snapshot is younger than the locks on the lanes. It waits, or it holds the lane. A follow-up is joined by nobody.
with last as (
    select
        l.tail,
        coalesce(
            (
                select w.id from sink.turn as w
                where
                    w.queue = l.queue and w.conversation = l.conversation and w.lane_seq = l.tail
                    and w.state = 'waiting'
            ),
            l.holder
        ) as turn
    from (
        select distinct item.queue, item.conversation
        from unnest(:queues::text[], :conversations::text[]) as item (queue, conversation)
    ) as named
    inner join sink.lane as l using (queue, conversation)
)

select t.id, t.queue, t.conversation, t.state, t.inbound_count, t.input_bytes
from last
inner join sink.turn as t on t.id = last.turn and t.lane_seq = last.tail
where t.state in ('queued', 'waiting') and t.attempt = 0 and t.depth = 0
order by t.id
for no key update of t;

-- name: join_turns
-- Turns gain inbound and wait for quiet again, within their bound. Only a turn that was never claimed.
with item as (
    select * from unnest(
        :turns::uuid[], :counts::int[], :bytes::bigint[], :priorities::int[],
        :quiets::double precision[], :bounds::double precision[]
    ) as t (turn, inbound_count, input_bytes, priority, quiet_seconds, seconds_max)
),

joined as (
    update sink.turn as t
    set
        inbound_count = t.inbound_count + item.inbound_count,
        input_bytes = t.input_bytes + item.input_bytes,
        priority = greatest(t.priority, item.priority),
        due_at = least(
            sink.now() + make_interval(secs => item.quiet_seconds),
            greatest(t.due_at, t.created_at + make_interval(secs => item.seconds_max))
        )
    from item
    where t.id = item.turn and t.attempt = 0 and t.state in ('queued', 'waiting')
    returning t.id, t.state, item.inbound_count
)

insert into sink.event (turn, verb, from_state, to_state, detail)
select id, 'join', joined.state, joined.state as to_state, jsonb_build_object('inbound', inbound_count) from joined
returning turn;

-- name: add_turns
-- New turns at the ends of their lanes, with the lanes' new tails and holders. The caller holds the lanes.
with item as (
    select * from unnest(
        :turns::uuid[], :queues::text[], :conversations::text[], :places::bigint[], :states::text[],
        :priorities::int[], :quiets::double precision[], :counts::int[], :bytes::bigint[]
    ) as t (
        turn, queue, conversation, place, state,
        priority, quiet_seconds, inbound_count, input_bytes
    )
),

lane as (
    update sink.lane as l
    set tail = entering.tail, holder = coalesce(entering.head, l.holder)
    from (
        select queue, conversation, max(place) as tail, min(turn::text) filter (where state = 'queued')::uuid as head
        from item
        group by queue, conversation
    ) as entering
    where l.queue = entering.queue and l.conversation = entering.conversation
),

added as (
    insert into sink.turn (
        id, queue, conversation, lane_seq, priority, state, created_at, due_at, inbound_count, input_bytes
    )
    select
        turn, queue, conversation, place, priority, state, sink.now(),
        sink.now() + make_interval(secs => quiet_seconds), inbound_count, input_bytes
    from item
)

insert into sink.event (turn, verb, to_state)
select turn, 'accept', state from item
order by turn;

-- name: add_held
-- New turns from a paused source: they take no lane, and nobody joins them before they are due.
with item as (
    select * from unnest(
        :turns::uuid[], :queues::text[], :conversations::text[], :priorities::int[], :sources::text[], :bytes::bigint[]
    ) as t (turn, queue, conversation, priority, source, input_bytes)
),

added as (
    insert into sink.turn (
        id, queue, conversation, priority, state, created_at, due_at, held_source, input_bytes
    )
    select turn, queue, conversation, priority, 'scheduled', sink.now(), 'infinity', source, input_bytes
    from item
)

insert into sink.event (turn, verb, to_state)
select turn, 'accept', 'scheduled' from item
order by turn;

-- name: add_inbound
-- The inbound of this call, with their places in their turns, and the turns that their keys stand for now.
with item as (
    select * from unnest(
        :inbounds::uuid[], :turns::uuid[], :queues::text[], :sources::text[],
        :conversations::text[], :content_types::text[], :headers::text[], :metadatas::text[], :bodies::bytea[],
        :stricts::boolean[], :views::text[], :replies::bytea[], :replies_expire::timestamptz[], :places::int[]
    ) as t (
        inbound, turn, queue, source,
        conversation, content_type, headers, metadata, body,
        strict_json, view, reply, reply_expires_at, place
    )
),

pointed as (
    update sink.idempotency_key as k
    set turn = item.turn
    from unnest(:scopes::text[], :keys::text[], :key_inbounds::uuid[]) as given (scope, key, inbound)
    inner join item using (inbound)
    where k.scope = given.scope and k.key = given.key and k.inbound = item.inbound and k.turn <> item.turn
)

insert into sink.inbound (
    id, turn, position, queue, source, conversation, received_at, key_expires_at, content_type, headers, metadata, body,
    strict_json, view, reply, reply_expires_at
)
select
    inbound,
    turn,
    place,
    queue,
    source,
    conversation,
    sink.now(),
    sink.now() + make_interval(secs => :key_seconds),
    content_type,
    headers::jsonb,
    metadata,
    body,
    strict_json,
    view,
    reply,
    reply_expires_at
from item;
