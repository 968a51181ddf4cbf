-- name: ask_resends
-- Somebody wants these delivered messages sent once more. Its caller has locked their turns, so that no purge takes
-- them meanwhile. What is asked for and not begun yet is not asked for twice.
with wanted as (
    select id, turn, destination, state from sink.outbox where id = any(:messages)
),

asked as (
    insert into sink.resend (id, message, turn, destination, requested_at, requested_by, due_at)
    select gen_random_uuid(), id, turn, destination, sink.now(), :by, sink.now()
    from wanted
    where state = 'delivered'
    order by id
    on conflict (message) where attempts = 0 do nothing
    returning message, turn
),

noted as (
    insert into sink.event (turn, message, verb, from_state, to_state, detail)
    select turn, message, 'resend', 'delivered', 'delivered', jsonb_build_object('step', 'asked', 'by', :by::text)
    from asked
)

select wanted.id, wanted.state, asked.message is not null as is_asked
from wanted
left join asked on asked.message = wanted.id;

-- name: find_resends
-- What is to be sent once more now, so many for each destination. Where nothing else may be sent neither is this: it is
-- paused, its breaker is not closed, or it asked to be left alone.
select picked.id, slot.lease_seconds, slot.hold_unknown
from unnest(:destinations::text[], :counts::int[], :leases::double precision[], :hold_unknown::boolean[])
    as slot (destination, free, lease_seconds, hold_unknown)
cross join lateral (
    select r.id from sink.resend as r
    where r.destination = slot.destination and r.attempt_id is null and r.due_at <= sink.now()
    order by r.due_at, r.id
    limit slot.free
) as picked
where
    not exists (
        select from sink.pause as p
        where p.kind = 'all' or (p.kind = 'destination' and p.name = slot.destination)
    )
    and not exists (
        select from sink.destination as d
        where d.name = slot.destination and (d.breaker <> 'closed' or d.tokens_at > sink.now())
    );

-- name: take_resends
-- Lease them to a worker and record each attempt, before its first byte.
with due as materialized (
    select r.id, item.lease_seconds, item.hold_unknown
    from unnest(:resends::uuid[], :leases::double precision[], :hold_unknown::boolean[])
        as item (resend, lease_seconds, hold_unknown)
    inner join sink.resend as r on r.id = item.resend
    where r.attempt_id is null and r.due_at <= sink.now()
    order by r.id
    for no key update of r skip locked
),

taken as (
    update sink.resend as r
    set
        attempts = r.attempts + 1,
        attempt_id = gen_random_uuid(),
        hold_unknown = due.hold_unknown,
        lease_expires_at = sink.now() + make_interval(secs => due.lease_seconds)
    from due
    where r.id = due.id
    returning r.id, r.message, r.turn, r.attempts, r.attempt_id, r.requested_at
),

noted as (
    insert into sink.event (turn, message, verb, from_state, to_state, attempt, attempt_id, detail)
    select turn, message, 'resend', 'delivered', 'delivered', attempts, attempt_id, jsonb_build_object('step', 'begun')
    from taken
)

select
    r.id as resend, o.id, o.turn, r.attempt_id, r.attempts, r.attempts as attempts_used, false as may_have_arrived,
    o.queue, o.conversation, o.destination, o.delay_seconds, o.expires_at,
    greatest(extract(epoch from sink.now() - r.requested_at), 0)::double precision as age_seconds,
    p.key, p.recipient, p.headers, p.content_type, p.body, p.hash, p.sealed_at, p.address, p.reply_of,
    case
        when p.reply_of is not null and o.expires_at > sink.now() then (
            select i.reply from sink.inbound as i where i.id = p.reply_of
        )
    end as reply,
    false as is_wanted, null::timestamptz as first_attempted_at, sink.now() as attempted_at
from taken as r
inner join sink.outbox as o on o.id = r.message
left join sink.outbox_payload as p on p.message = o.id;

-- name: settle_resends
-- Write what became of each attempt whose lease still holds: once more later, or done. With lapsed only where the lease
-- is over. The message stays delivered, whatever came of it.
with item as (
    select * from unnest(
        :resends::uuid[], :attempt_ids::uuid[], :states::text[], :delays::double precision[], :reasons::text[],
        :receipts::text[], :statuses::int[], :excerpts::text[]
    ) as t (resend, attempt_id, state, delay_seconds, reason, receipt, status, excerpt)
),

held as materialized (
    select r.id, r.message, r.turn, r.attempts, item.*
    from item
    inner join sink.resend as r on r.id = item.resend and r.attempt_id = item.attempt_id
    where not :lapsed or r.lease_expires_at <= sink.now()
    order by r.id
    for no key update of r
),

again as (
    update sink.resend as r
    set
        attempt_id = null,
        lease_expires_at = null,
        due_at = sink.now() + make_interval(secs => held.delay_seconds)
    from held
    where r.id = held.id and held.state = 'pending'
),

done as (
    delete from sink.resend as r using held where r.id = held.id and held.state <> 'pending'
),

noted as (
    insert into sink.event (turn, message, verb, from_state, to_state, attempt, attempt_id, reason, detail)
    select
        turn, message, 'resend', 'delivered', 'delivered', attempts, attempt_id, reason,
        jsonb_strip_nulls(
            jsonb_build_object(
                'step', 'ended', 'outcome', state, 'status', status, 'answer', excerpt, 'receipt', receipt
            )
        )
    from held
)

select id from held;

-- name: find_lapsed_resends
-- What a worker began and did not come back from, longest first.
select
    id, attempt_id, destination, attempts, hold_unknown,
    greatest(extract(epoch from sink.now() - requested_at), 0)::double precision as age_seconds
from sink.resend
where attempt_id is not null and lease_expires_at <= sink.now()
order by lease_expires_at, id
limit :rows_max;

-- name: any_resends
-- Whether anything at all is to be sent once more.
select exists(select from sink.resend) as found;
