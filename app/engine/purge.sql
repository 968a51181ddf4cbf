-- name: look_for_ended
-- A stretch of turns in the order of their ids, and which of them ended longer ago than they are kept: in a state that
-- nothing leaves by itself, nothing dead or unknown left to decide, and no event since. is_young: so are all behind it.
select
    t.id,
    t.created_at > sink.now() - make_interval(secs => least(:turns_seconds::float, :failed_seconds)) as is_young,
    (
        t.state in ('replied', 'undelivered', 'cancelled')
        and t.created_at <= sink.now() - make_interval(secs => :turns_seconds)
        or t.state = 'failed' and t.created_at <= sink.now() - make_interval(secs => :failed_seconds)
    )
    and coalesce(
        (select e.at from sink.event as e where e.turn = t.id order by e.id desc limit 1), t.created_at
    ) <= sink.now() - make_interval(secs => case t.state when 'failed' then :failed_seconds else :turns_seconds end)
    -- No exists: that may be answered by reading all messages once.
    and (
        select true from sink.outbox as o
        where o.turn = t.id and o.state not in ('delivered', 'cancelled')
        limit 1 -- noqa: AM09
    ) is null as is_over
from sink.turn as t
where t.id > :after
order by t.id
limit :rows_max;

-- name: hold_ended
-- Lock those of these turns that have ended, in order; one that somebody is about to move is left for the next time.
-- The next statement sees them with all their events and messages as they stay.
select id from sink.turn
where id = any(:turns) and state in ('replied', 'undelivered', 'cancelled', 'failed')
order by id
for update skip locked;

-- name: bury_turns
-- Turns go with everything that hangs on them, but for their events, and leave tombstones for as long as their keys are
-- remembered. Its caller has locked them in an earlier statement. What has not ended, or not long ago enough, stays.
-- With is_erasure the time does not count, and neither does what is dead or unknown; but then what tells somebody of a
-- turn goes with it or before it.
with ended as materialized (
    select
        t.id,
        t.queue,
        t.state,
        greatest(
            max(coalesce(i.key_expires_at, i.received_at + make_interval(secs => :key_seconds))),
            sink.now() + make_interval(secs => :tombstone_seconds)
        ) as expires_at
    from sink.turn as t
    left join sink.inbound as i on i.turn = t.id
    where
        t.id = any(:turns)
        and t.state in ('replied', 'undelivered', 'cancelled', 'failed')
        and (
            :is_erasure::boolean
            or coalesce(
                (select e.at from sink.event as e where e.turn = t.id order by e.id desc limit 1), t.created_at
            ) <= sink.now()
            - make_interval(secs => case t.state when 'failed' then :failed_seconds::float else :turns_seconds end)
        )
        and not exists (
            select from sink.outbox as o
            where
                o.turn = t.id
                and (o.state = 'sending' or o.state not in ('delivered', 'cancelled') and not :is_erasure)
        )
        and not exists (select from sink.resend as r where r.turn = t.id)
    group by t.id
),

due as materialized (
    select * from ended
    where
        not :is_erasure
        or not exists (
            select from sink.turn as t where t.about = ended.id and t.id not in (select e.id from ended as e)
        )
),

inbound as (
    delete from sink.inbound as i using due where i.turn = due.id
    returning i.id, i.turn
),

attempt as (
    delete from sink.attempt as a using due where a.turn = due.id
    returning a.turn
),

message as (
    delete from sink.outbox as o using due where o.turn = due.id
    returning o.id, o.turn, o.state
),

payload as (
    delete from sink.outbox_payload as p
    using due, sink.outbox as o
    where o.turn = due.id and p.message = o.id
    returning p.key
),

hold as (
    delete from sink.hold as h using due where h.turn = due.id
    returning h.turn
),

wait as (
    delete from sink.wait as w using due where w.turn = due.id
    returning w.turn
),

signal as (
    delete from sink.signal as s using due where s.turn = due.id
    returning s.turn
),

-- What is to follow is a turn of its own by now, and stays as long as that does.
follow_up as (
    delete from sink.follow_up as f using due where f.turn = due.id
    returning f.turn
),

notice as (
    delete from sink.notice as n using due where n.turn = due.id
),

loopback as (
    delete from sink.loopback as l using payload where l.key = payload.key
    returning l.key
),

turn as (
    delete from sink.turn as t using due where t.id = due.id
    returning t.id
),

buried as (
    insert into sink.tombstone (id, turn, queue, state, purged_at, expires_at)
    select due.id, due.id as turn, due.queue, due.state, sink.now(), due.expires_at from due
    union all
    select inbound.id, due.id as turn, due.queue, due.state, sink.now(), due.expires_at
    from inbound
    inner join due on due.id = inbound.turn
    union all
    select message.id, due.id as turn, due.queue, message.state, sink.now(), due.expires_at
    from message
    inner join due on due.id = message.turn
    returning id
)

select
    array(select id from turn) as turns,
    (select count(*) from inbound) as inbound,
    (select count(*) from attempt) as attempts,
    (select count(*) from message) as messages,
    (select count(*) from hold) as holds,
    (select count(*) from wait) as waits,
    (select count(*) from signal) as signals,
    (select count(*) from follow_up) as follow_ups,
    (select count(*) from loopback) as loopback,
    (select count(*) from buried) as tombstones;

-- name: drop_notices
-- Nobody is told any more of turns that are about to go. Its caller holds them, so that no notice comes after; whoever
-- is about to make a turn of one is waited for, and the next statement sees that turn.
delete from sink.notice where turn = any(:turns);

-- name: purge_events
-- The events of turns that are gone: the audit lets nobody else take away anything.
select sink.purge_events(:turns) as events;
