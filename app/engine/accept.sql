-- name: accept_inbound
-- One statement is the whole accept: the key decides, and everything else hangs on the keys that were new.
-- A twin that is being accepted elsewhere makes the insert wait and then find its key. Keys and lanes are taken in
-- sorted order, that of C whatever the database collates by; a lane's row is locked by its upsert, which sees its
-- latest version whatever the snapshot says. What would be due too far ahead by this clock is only told so. What a
-- paused source sends is scheduled for no time, and so is what it sends while others of its are still held up.
-- What has several keys is new when all of them are: its caller drops those that were new for nothing.
with held as (
    select given.source
    from (select distinct source from unnest(:sources::text[]) as t (source)) as given
    where
        exists (select from sink.pause as p where p.kind = 'source' and p.name = given.source)
        -- One probe of an index, however many there are.
        or (
            select true from sink.turn as h
            where h.held_source = given.source and h.state = 'scheduled'
            order by h.held_source, h.created_at, h.id limit 1
        )
),

item as (
    select
        t.*,
        t.source in (select held.source from held) as is_held,
        -- A time that has passed is now: nobody gets before others by naming an early one.
        greatest(coalesce(t.not_before, sink.now() + make_interval(secs => t.delay_seconds)), sink.now()) as due_at
    from unnest(
        :positions::int[], :scopes::text[], :key_counts::int[], :body_hashes::bytea[], :inbounds::uuid[],
        :turns::uuid[], :queues::text[], :sources::text[], :conversations::text[], :content_types::text[],
        :headers::text[], :metadatas::text[], :bodies::bytea[], :stricts::boolean[], :views::text[],
        :replies::bytea[], :replies_expire::timestamptz[], :priorities::int[],
        :delays::double precision[], :not_befores::timestamptz[], :delays_max::double precision[]
    ) as t (
        position, scope, key_count, body_hash, inbound,
        turn, queue, source, conversation, content_type,
        headers, metadata, body, strict_json, view,
        reply, reply_expires_at, priority,
        delay_seconds, not_before, delay_seconds_max
    )
),

fresh_key as (
    insert into sink.idempotency_key (scope, key, body_hash, inbound, turn, created_at, expires_at)
    select
        item.scope,
        given.key,
        item.body_hash,
        item.inbound,
        item.turn,
        sink.now(),
        sink.now() + make_interval(secs => :key_seconds)
    from unnest(:key_positions::int[], :keys::text[]) as given (position, key)
    inner join item using (position)
    where item.due_at <= sink.now() + make_interval(secs => item.delay_seconds_max)
    order by item.scope collate "C", given.key collate "C", position
    on conflict do nothing
    returning turn, expires_at
),

fresh as (
    select
        item.*,
        new.expires_at,
        item.due_at <= sink.now() and not item.is_held as is_due,
        row_number() over (
            partition by item.queue, item.conversation, item.due_at <= sink.now() and not item.is_held
            order by item.position
        ) as nth
    from (select turn, min(expires_at) as expires_at, count(*) as keys from fresh_key group by turn) as new
    inner join item on item.turn = new.turn and item.key_count = new.keys
),

in_lane as (
    select queue, conversation, count(*) as turns, min(turn::text) filter (where nth = 1)::uuid as head
    from fresh
    where is_due and conversation is not null
    group by queue, conversation
    order by queue collate "C", conversation collate "C"
),

lane as (
    insert into sink.lane as l (queue, conversation, tail, holder)
    select queue, conversation, turns, head from in_lane
    on conflict (queue, conversation) do update
    set tail = l.tail + excluded.tail, holder = coalesce(l.holder, excluded.holder)
    returning l.queue, l.conversation, l.tail, l.holder
),

placed as (
    select
        fresh.*,
        lane.tail - in_lane.turns + fresh.nth as lane_seq,
        case
            when not fresh.is_due then 'scheduled'
            when fresh.conversation is null or lane.holder = fresh.turn then 'queued'
            else 'waiting'
        end as state
    from fresh
    left join in_lane
        on fresh.is_due and in_lane.queue = fresh.queue and in_lane.conversation = fresh.conversation
    left join lane on lane.queue = in_lane.queue and lane.conversation = in_lane.conversation
),

new_inbound as (
    insert into sink.inbound (
        id, turn, queue, source, conversation, received_at, key_expires_at, content_type, headers, metadata, body,
        strict_json, view, reply, reply_expires_at
    )
    select
        inbound,
        turn,
        queue,
        source,
        conversation,
        sink.now(),
        expires_at,
        content_type,
        headers::jsonb,
        metadata,
        body,
        strict_json,
        view,
        reply,
        reply_expires_at
    from placed
),

new_turn as (
    insert into sink.turn (
        id, queue, conversation, lane_seq, priority, state, created_at, due_at, ages_from, held_source, input_bytes
    )
    select
        turn,
        queue,
        conversation,
        lane_seq,
        priority,
        state,
        sink.now(),
        case when is_held then 'infinity' else due_at end,
        case when is_held and due_at > sink.now() then due_at end,
        case when is_held then source end,
        octet_length(body)
    from placed
),

noted as (
    insert into sink.event (turn, verb, to_state)
    select turn, 'accept', state
    from placed
    order by position
)

select position, inbound, turn, state, expires_at
from placed
union all
select position, null, null, 'too_far_ahead', null
from item
where due_at > sink.now() + make_interval(secs => delay_seconds_max);

-- name: drop_keys
-- The keys that were new for inbound which another of their keys had brought before: nothing stands behind them.
delete from sink.idempotency_key as k
using unnest(:scopes::text[], :keys::text[], :inbounds::uuid[]) as given (scope, key, inbound)
where k.scope = given.scope and k.key = given.key and k.inbound = given.inbound;

-- name: find_accepted
-- What the keys that were known stand for, and where their turns are now. Needs a snapshot of its own: the twin that
-- won may have committed after the accept began.
select
    item.position,
    item.nth,
    known.inbound,
    known.turn,
    coalesce(turn.state, gone.state, known.last_state) as state,
    known.expires_at,
    known.body_hash = item.body_hash as same_body
from unnest(:positions::int[], :nths::int[], :scopes::text[], :keys::text[], :body_hashes::bytea[])
    as item (position, nth, scope, key, body_hash)
inner join sink.idempotency_key as known on known.scope = item.scope and known.key = item.key
left join sink.turn on turn.id = known.turn
left join sink.tombstone as gone on turn.id is null and gone.id = known.turn
order by item.position, item.nth;
