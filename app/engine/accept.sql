-- name: accept_inbound
-- One statement is the whole accept: the key decides, and everything else hangs on the keys that were new.
-- A twin that is being accepted elsewhere makes the insert wait and then find its key. Keys come in sorted order and
-- lanes are taken in it, that of C whatever the database collates by; a lane's row is locked by its upsert, which sees
-- its latest version whatever the snapshot says. What would be due too far ahead by this clock is left out. What a
-- paused source sends is scheduled for no time, and so is what it sends while others of its are still held up.
-- What has several keys is new when all of them are: its caller drops those that were new for nothing.
-- A step hands on the number of what arrived, from 1, and whoever writes a column takes it out of its array.
with held as materialized (
    select array(
        select given.source
        from unnest(:senders::text[]) as given (source)
        where
            (select true from sink.pause as p where p.kind = 'source' and p.name = given.source)
            -- One probe of an index, however many there are.
            or (
                select true from sink.turn as h
                where h.held_source = given.source and h.state = 'scheduled'
                order by h.held_source, h.created_at, h.id limit 1
            )
    ) as sources
),

fresh_key as (
    insert into sink.idempotency_key (scope, key, body_hash, inbound, turn, created_at, expires_at)
    select
        (:scopes::text[])[given.number],
        (:keys::text[])[given.nth],
        (:body_hashes::bytea[])[given.number],
        (:inbounds::uuid[])[given.number],
        (:turns::uuid[])[given.number],
        sink.now(),
        sink.now() + make_interval(secs => :key_seconds)
    from (
        select
            nth,
            place,
            (:key_numbers::int[])[nth] as number
        -- Not unnest: the planner would take ten rows for granted, and compare each with each.
        from generate_series(1, cardinality(:key_numbers::int[])) with ordinality as series (nth, place)
    ) as given
    where
        -- Evaluated once, before the first lock is waited for, and for this transaction alone.
        (select case when :lock_wait_ms::int > 0 then set_config('lock_timeout', :lock_wait_ms::text, true) end)
        is distinct from ''
        and coalesce(
            (:not_befores::timestamptz[])[given.number],
            sink.now() + make_interval(secs => (:delays::double precision[])[given.number])
        ) <= sink.now() + make_interval(secs => (:delays_max::double precision[])[given.number])
    order by given.place
    on conflict do nothing
    returning turn
),

fresh as (
    select
        new.turn,
        new.number,
        (:queues::text[])[new.number] collate "C" as queue,
        (:conversations::text[])[new.number] collate "C" as conversation,
        (:sources::text[])[new.number] = any((select held.sources from held)::text[]) as is_held,
        -- A time that has passed is now: nobody gets before others by naming an early one.
        greatest(
            coalesce(
                (:not_befores::timestamptz[])[new.number],
                sink.now() + make_interval(secs => (:delays::double precision[])[new.number])
            ),
            sink.now()
        ) as due_at
    from (
        select
            turn,
            array_position(:turns::uuid[], turn) as number
        from fresh_key
        group by turn
        having count(*) >= (:key_counts::int[])[array_position(:turns::uuid[], turn)]
    ) as new
    offset 0 -- else each of these is worked out wherever it is looked at
),

numbered as (
    select
        fresh.*,
        is_due,
        case when is_due and conversation is not null then row_number() over entering end as nth,
        count(*) over entering as entering
    from fresh
    cross join lateral (select due_at <= sink.now() and not is_held as is_due) as when_due
    window entering as (
        partition by queue, conversation, is_due
        order by number rows between unbounded preceding and unbounded following
    )
),

lane as (
    insert into sink.lane as l (queue, conversation, tail, holder)
    select queue, conversation, entering, turn
    from numbered
    where nth <= 1
    order by queue collate "C", conversation collate "C"
    on conflict (queue, conversation) do update
    set tail = l.tail + excluded.tail, holder = coalesce(l.holder, excluded.holder)
    returning l.queue, l.conversation, l.tail, l.holder
),

placed as (
    select
        numbered.turn,
        numbered.number,
        numbered.queue,
        numbered.conversation,
        numbered.is_held,
        numbered.due_at,
        lane.tail - numbered.entering + numbered.nth as lane_seq,
        case
            when not numbered.is_due then 'scheduled'
            when numbered.conversation is null or lane.holder = numbered.turn then 'queued'
            else 'waiting'
        end as state
    from numbered
    left join lane
        on numbered.is_due and lane.queue = numbered.queue and lane.conversation = numbered.conversation
),

new_inbound as (
    insert into sink.inbound (
        id, turn, queue, source, conversation, received_at, key_expires_at, content_type, headers, metadata, body,
        strict_json, view, reply, reply_expires_at
    )
    select
        (:inbounds::uuid[])[number],
        turn,
        queue,
        (:sources::text[])[number],
        conversation,
        sink.now(),
        sink.now() + make_interval(secs => :key_seconds),
        (:content_types::text[])[number],
        (:headers::text[])[number]::jsonb,
        (:metadatas::text[])[number],
        (:bodies::bytea[])[number],
        (:stricts::boolean[])[number],
        (:views::text[])[number],
        (:replies::bytea[])[number],
        (:replies_expire::timestamptz[])[number]
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
        (:priorities::int[])[number],
        state,
        sink.now(),
        case when is_held then 'infinity' else due_at end,
        case when is_held and due_at > sink.now() then due_at end,
        case when is_held then (:sources::text[])[number] end,
        octet_length((:bodies::bytea[])[number])
    from placed
)

insert into sink.event (turn, verb, to_state)
select turn, 'accept', state
from placed
returning turn, to_state as state, at + make_interval(secs => :key_seconds) as expires_at;

-- name: find_too_far
-- Whether any of these would be due too far ahead by this clock.
select exists(
    select
    from unnest(:not_befores::timestamptz[], :delays::double precision[], :delays_max::double precision[])
        as t (not_before, delay_seconds, delay_seconds_max)
    where
        coalesce(t.not_before, sink.now() + make_interval(secs => t.delay_seconds))
        > sink.now() + make_interval(secs => t.delay_seconds_max)
) as is_too_far;

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
