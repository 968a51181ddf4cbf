-- name: take_messages
-- Lease due, unblocked messages and count each attempt before its first byte: up to the free slots of this worker, and
-- as many as the destination allows to all workers together, counted under the lock of its row. What gives nothing now
-- is not locked. A destination with a long backlog takes no slot of another. Locked messages are skipped, so a take
-- waits for no message. It begins with what was due at `since`: before that there is little but what is gone.
with slot as (
    select *
    from unnest(
        :destinations::text[], :counts::int[], :leases::double precision[], :hold_unknown::boolean[],
        :concurrency::int[], :rates::double precision[], :since::timestamptz[]
    ) as t (destination, free, lease_seconds, hold_unknown, concurrency_max, rate_per_second, since)
),

look as materialized (
    select
        slot.*, first.due_at as first_due_at, d.name, d.sending, d.tokens, d.tokens_at, d.breaker, d.probe_at,
        d.sending < slot.concurrency_max
        and coalesce(d.tokens_at <= sink.now(), true)
        and coalesce(d.tokens + slot.rate_per_second * extract(epoch from sink.now() - d.tokens_at) >= 1, true)
        and (d.breaker = 'closed' or (d.breaker = 'open' and d.probe_at <= sink.now() and d.sending = 0)) as may_give
    from slot
    cross join lateral (
        select o.due_at
        from sink.outbox as o
        where
            o.destination = slot.destination and o.state = 'pending' and o.blocked_by is null
            and o.due_at <= sink.now() and o.due_at >= coalesce(slot.since, '-infinity')
        order by o.due_at, o.id
        limit 1
    ) as first
    left join sink.destination as d on d.name = slot.destination
    where
        not exists (
            select from sink.pause as p
            where p.kind = 'all' or (p.kind = 'destination' and p.name = slot.destination)
        )
),

held as materialized (
    select d.name, d.sending, d.tokens, d.tokens_at, d.breaker, d.probe_at
    from sink.destination as d
    where d.name in (select name from look where may_give)
    order by d.name
    for no key update
),

seen as (
    select * from held
    union all
    select name, sending, tokens, tokens_at, breaker, probe_at from look where not may_give
),

-- A rate is handed out in portions of a quarter of a second, of one message at least. Half a one more is kept, so that
-- who comes a moment late loses nothing.
room as (
    select
        look.destination, look.free, look.lease_seconds, look.hold_unknown, look.rate_per_second, look.first_due_at,
        look.concurrency_max - seen.sending as idle,
        seen.name is not null as is_known,
        seen.sending, seen.breaker, seen.probe_at, seen.tokens_at,
        case
            when look.rate_per_second is not null then least(
                greatest(1, look.rate_per_second / 4) + 0.5,
                seen.tokens + look.rate_per_second * extract(epoch from sink.now() - seen.tokens_at)
            )
        end as tokens
    from look
    left join seen on seen.name = look.destination
    offset 0 -- noqa: AM09
),

allowed as materialized (
    select
        room.*,
        case
            when not is_known or tokens_at > sink.now() then 0
            when breaker = 'open' and probe_at <= sink.now() and sending = 0 then least(free, 1)
            when breaker = 'closed' then greatest(least(free, idle, floor(tokens)::int), 0)
            else 0
        end as most
    from room
),

-- As lists, which the planner takes for short ones: whatever the backlog, each is updated through its key.
picked as materialized (
    select
        array_agg(due.id) as ids,
        array_agg(allowed.lease_seconds) as leases,
        array_agg(allowed.hold_unknown) as hold_unknown
    from allowed
    cross join lateral (
        select o.id
        from sink.outbox as o
        where
            o.destination = allowed.destination and o.state = 'pending' and o.blocked_by is null
            and o.due_at between allowed.first_due_at and sink.now()
        order by o.due_at, o.id
        limit allowed.most
        for update skip locked
    ) as due
),

taken as (
    update sink.outbox as o
    set
        state = 'sending',
        reason = null,
        attempts = o.attempts + 1,
        attempts_used = o.attempts_used + 1,
        attempt_id = gen_random_uuid(),
        hold_unknown = due.hold_unknown,
        lease_expires_at = sink.now() + make_interval(secs => due.lease_seconds)
    from picked
    cross join lateral unnest(picked.ids, picked.leases, picked.hold_unknown) as due (id, lease_seconds, hold_unknown)
    where o.id = due.id
    returning
        o.id, o.turn, o.attempt_id, o.attempts, o.attempts_used, o.may_have_arrived, o.queue, o.conversation,
        o.destination, o.delay_seconds, o.expires_at, o.due_at, o.due_since
),

noted as (
    insert into sink.event (turn, message, verb, from_state, to_state, attempt, attempt_id)
    select turn, id, 'take', 'pending', 'sending', attempts, attempt_id from taken
),

given as (
    select
        t.destination,
        count(*)::int as given,
        max(t.due_at) as latest,
        exists(
            select from sink.standstill as s
            where s.destination in (t.destination, '') and (s.ended_at is null or s.ended_at > min(t.due_since))
        ) as has_stood
    from taken as t
    group by t.destination
),

spent as (
    update sink.destination as d
    set
        sending = d.sending + given.given,
        tokens = coalesce(allowed.tokens - given.given, d.tokens),
        tokens_at = case when allowed.tokens is null then d.tokens_at else sink.now() end,
        breaker = case when d.breaker = 'open' then 'probing' else d.breaker end
    from allowed
    inner join given using (destination)
    where d.name = allowed.destination
)

select
    allowed.destination as slot, allowed.is_known,
    case
        when not allowed.is_known or coalesce(given.given, 0) < allowed.most or allowed.most = allowed.free then null
        when allowed.breaker <> 'closed' then 'breaker'
        when allowed.tokens_at > sink.now() then 'asked'
        when allowed.tokens - allowed.most < 1 then 'rate'
        else 'concurrency'
    end as limited_by,
    extract(epoch from allowed.probe_at - sink.now())::double precision as probe_in,
    extract(epoch from allowed.tokens_at - sink.now())::double precision as asked_in,
    ((1 - allowed.tokens + allowed.most) / allowed.rate_per_second)::double precision as token_in,
    given.has_stood,
    given.latest,
    o.id, o.turn, o.attempt_id, o.attempts, o.attempts_used, o.may_have_arrived, o.queue, o.conversation, o.destination,
    o.delay_seconds, o.expires_at, o.due_at,
    greatest(extract(epoch from sink.now() - o.due_since), 0)::double precision as age_seconds,
    p.key, p.recipient, p.headers, p.content_type, p.body, p.hash, p.sealed_at, p.address, p.reply_of,
    sink.now() as attempted_at
from allowed
left join given using (destination)
left join taken as o on o.destination = allowed.destination
left join sink.outbox_payload as p on p.message = o.id;

-- name: make_destinations
-- Whoever first has something for a destination makes its row.
insert into sink.destination (name)
select name from unnest(:destinations::text[]) as t (name)
order by name collate "C"
on conflict do nothing;

-- name: condemn_messages
-- Messages that are not to be sent end here, before an attempt: their bytes are not those that were sealed, which is
-- never guessed, or their key may have been forgotten where they may have arrived.
with spoiled as materialized (
    select o.id, item.reason
    from unnest(:messages::uuid[], :reasons::text[]) as item (message, reason)
    inner join sink.outbox as o on o.id = item.message
    where o.state = 'pending'
    order by o.id
    for no key update of o
),

ended as (
    update sink.outbox as o
    set state = case when o.may_have_arrived then 'unknown' else 'dead' end, reason = spoiled.reason, blocked_by = null
    from spoiled
    where o.id = spoiled.id and o.state = 'pending'
    returning o.id, o.turn, o.queue, o.state, o.reason
),

noted as (
    insert into sink.event (turn, message, verb, from_state, to_state, reason)
    select turn, id, 'take', 'pending', state, reason from ended
),

telling as (
    insert into sink.notice (turn, message, queue, kind, reason, noted_at)
    select e.turn, e.id, e.queue, 'escalation', e.reason, sink.now()
    from ended as e
    where (select t.about from sink.turn as t where t.id = e.turn) is null
)

select id, turn, state from ended;
