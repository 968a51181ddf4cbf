-- name: count_pages
-- How many pages a table has now.
select pg_relation_size(:table::text::regclass) / current_setting('block_size')::bigint as pages, sink.now() as at;

-- name: expire_keys
-- Keys of a stretch of pages whose time is over, with neither a turn nor a tombstone that is kept. Nobody else locks
-- them, and who inserts one of them meanwhile waits, and finds it gone.
with gone as (
    delete from sink.idempotency_key as k
    where
        k.ctid >= :first::tid and k.ctid < :behind::tid
        and k.expires_at <= sink.now()
        and not exists (select from sink.turn as t where t.id = k.turn)
        and not exists (select from sink.tombstone as g where g.id = k.turn and g.expires_at > sink.now())
    returning k.turn
)

select count(*) as rows from gone;

-- name: expire_tombstones
-- Tombstones whose time was over before all keys were looked at: none of their keys is left.
with gone as (
    delete from sink.tombstone
    where ctid = any(array(
        select ctid from sink.tombstone
        where expires_at <= :until
        order by expires_at
        limit :rows_max
        for update skip locked
    ))
    returning id
)

select count(*) as rows from gone;

-- name: hold_idle_lanes
-- Lock the lanes of a stretch of pages that nobody is in. One that is locked is in use.
select l.queue, l.conversation
from sink.lane as l
where
    l.ctid >= :first::tid and l.ctid < :behind::tid and l.holder is null
    and not exists (select from sink.inbound as i where i.queue = l.queue and i.conversation = l.conversation)
order by l.queue, l.conversation
for update skip locked;

-- name: drop_idle_lanes
-- Of the lanes that the caller has locked, those that nobody has entered before the lock: without an inbound there is
-- no turn, so that no place is left that could be given again.
with gone as (
    delete from sink.lane as l
    using unnest(:queues::text[], :conversations::text[]) as idle (queue, conversation)
    where
        l.queue = idle.queue and l.conversation = idle.conversation and l.holder is null
        and not exists (select from sink.inbound as i where i.queue = l.queue and i.conversation = l.conversation)
    returning l.queue
)

select count(*) as rows from gone;

-- name: hold_idle_delivery_lanes
-- Lock the delivery lanes of a stretch of pages whose conversation is over, with nothing open in them.
select l.queue, l.conversation, l.destination
from sink.delivery_lane as l
where
    l.ctid >= :first::tid and l.ctid < :behind::tid
    and not exists (select from sink.inbound as i where i.queue = l.queue and i.conversation = l.conversation)
    and not exists (
        select from sink.outbox as o
        where
            o.queue = l.queue and o.conversation = l.conversation and o.destination = l.destination
            and o.state in ('pending', 'sending') and not o.left_lane and o.conversation is not null
    )
order by l.queue, l.conversation, l.destination
for update skip locked;

-- name: drop_idle_delivery_lanes
-- Of the delivery lanes that the caller has locked, those with nothing open: who seals into one holds it until what he
-- has sealed can be seen. A message that is open never compares its place with one from before.
with gone as (
    delete from sink.delivery_lane as l
    using
        unnest(:queues::text[], :conversations::text[], :destinations::text[])
            as idle (queue, conversation, destination)
    where
        l.queue = idle.queue and l.conversation = idle.conversation and l.destination = idle.destination
        and not exists (
            select from sink.outbox as o
            where
                o.queue = l.queue and o.conversation = l.conversation and o.destination = l.destination
                and o.state in ('pending', 'sending') and not o.left_lane and o.conversation is not null
        )
    returning l.queue
)

select count(*) as rows from gone;

-- name: expire_differing
-- Keys under which no other body came for as long as keys are remembered.
with gone as (
    delete from sink.differing as d
    where (d.source, d.key) in (
        select l.source, l.key from sink.differing as l
        where l.last_at <= sink.now() - make_interval(secs => :seconds)
        order by l.last_at
        limit :rows_max
        for update skip locked
    )
    returning d.key
)

select count(*) as rows from gone;

-- name: expire_loopback
-- What the loopback channel received last before its time.
with gone as (
    delete from sink.loopback
    where ctid = any(array(
        select ctid from sink.loopback
        where last_at <= sink.now() - make_interval(secs => :seconds)
        order by last_at
        limit :rows_max
        for update skip locked
    ))
    returning key
)

select count(*) as rows from gone;

-- name: expire_operations
-- Bulk operations that ended before their time. There are few, so nothing serves to find them.
with gone as (
    delete from sink.operation
    where id in (
        select id from sink.operation
        where ended_at <= sink.now() - make_interval(secs => :seconds)
        order by id
        limit :rows_max
        for update skip locked
    )
    returning id
)

select count(*) as rows from gone;

-- name: expire_schedules
-- Sources that nobody has looked at for so long that whatever they missed is too old.
with gone as (
    delete from sink.schedule
    where source in (
        select source from sink.schedule
        where looked_at <= sink.now() - make_interval(secs => :seconds)
        order by source
        limit :rows_max
        for update skip locked
    )
    returning source
)

select count(*) as rows from gone;

-- name: expire_standstills
-- Standstills that no message can be old enough to have waited through.
with gone as (
    delete from sink.standstill as s
    where (s.destination, s.cause, s.began_at) in (
        select l.destination, l.cause, l.began_at from sink.standstill as l
        where l.ended_at <= sink.now() - make_interval(secs => :seconds)
        order by l.destination, l.cause, l.began_at
        limit :rows_max
        for update skip locked
    )
    returning s.destination
)

select count(*) as rows from gone;
