-- name: end_attempts
-- Attempts have ended at these destinations: fewer are being sent, and what they told may open or close a breaker. The
-- last lock of its transaction. While a breaker is not closed its destination stands still, which the age of a message
-- does not count.
with item as (
    select * from unnest(
        :destinations::text[], :ended::int[], :worked::boolean[], :failures::int[], :shuts::text[],
        :holds::double precision[], :failures_max::int[], :open_seconds::double precision[],
        :open_seconds_max::double precision[]
    ) as t (destination, ended, worked, failures, shut, hold_seconds, failures_max, open_seconds, open_seconds_max)
),

held as materialized (
    select d.name, d.breaker, d.failures, d.openings, d.opened_at
    from item
    inner join sink.destination as d on d.name = item.destination
    order by d.name
    for no key update of d
),

counted as (
    select
        item.*,
        held.breaker as was,
        held.openings,
        held.opened_at,
        case when item.worked then item.failures else held.failures + item.failures end as in_vain
    from held
    inner join item on item.destination = held.name
),

judged as (
    select
        counted.*,
        case
            when was = 'disabled' or shut = 'gone' then 'disabled'
            when shut = 'unauthorized' or (failures > 0 and in_vain >= failures_max) then 'open'
            when was in ('open', 'probing') and not worked then 'open'
            else 'closed'
        end as breaker
    from counted
),

decided as (
    select
        judged.*,
        -- A probe that told nothing is made again; attempts that began before it opened change nothing.
        breaker = 'open' and (was = 'closed' or worked or (was = 'probing' and in_vain > 0 and failures > 0)) as opens,
        case
            when breaker = 'disabled' then 'gone'
            when breaker = 'open' and shut is not null then shut
            when breaker = 'open' then 'failing'
        end as why,
        least(open_seconds * power(2, least(openings, 60)), open_seconds_max) as seconds
    from judged
),

moved as (
    update sink.destination as d
    set
        sending = greatest(d.sending - decided.ended, 0),
        tokens = case when decided.hold_seconds > 0 then 0 else d.tokens end,
        tokens_at
        = case
            when decided.hold_seconds > 0
                then greatest(
                    d.tokens_at,
                    sink.now() + make_interval(secs => least(decided.hold_seconds, decided.open_seconds_max))
                )
            else d.tokens_at
        end,
        breaker = decided.breaker,
        failures = decided.in_vain,
        openings = case when decided.breaker = 'closed' then 0 else d.openings + decided.opens::int end,
        opened_at = case when decided.breaker <> 'closed' then coalesce(d.opened_at, sink.now()) end,
        probe_at
        = case
            when decided.breaker <> 'open' then null
            when decided.opens then sink.now() + make_interval(secs => decided.seconds)
            when decided.was = 'probing' then sink.now()
            else d.probe_at
        end,
        reason = case
            when decided.breaker = decided.was and not decided.opens then d.reason else decided.why
        end
    from decided
    where d.name = decided.destination
    returning d.name
),

began as (
    insert into sink.standstill (destination, cause, began_at)
    select destination, 'breaker', sink.now() from decided
    where was = 'closed' and breaker <> 'closed'
    -- Opened again within one tick of the clock.
    on conflict (destination, cause, began_at) do update set ended_at = null
),

-- It may have begun behind this snapshot, by whoever held the destination before. An upsert sees it all the same.
over as (
    insert into sink.standstill (destination, cause, began_at, ended_at)
    select destination, 'breaker', opened_at, greatest(sink.now(), opened_at) from decided
    where was <> 'closed' and breaker = 'closed'
    on conflict (destination, cause, began_at) do update set ended_at = excluded.ended_at
)

select
    decided.destination, decided.was, decided.breaker, decided.why as reason,
    case when decided.opens then decided.seconds end::double precision as seconds
from decided
inner join moved on moved.name = decided.destination
where decided.was <> decided.breaker or decided.opens;

-- name: close_breaker
-- Somebody wants it sent to again, whatever it said: at once, and as if nothing had failed.
with held as materialized (
    select d.name, d.opened_at
    from sink.destination as d
    where
        d.name = :destination
        and (d.breaker <> 'closed' or d.failures > 0 or d.tokens_at > sink.now())
    for no key update
),

closed as (
    update sink.destination as d
    set
        breaker = 'closed', failures = 0, openings = 0, opened_at = null, probe_at = null, reason = null,
        tokens_at = least(d.tokens_at, sink.now())
    from held
    where d.name = held.name
    returning d.name
),

-- As when an attempt closes it.
over as (
    insert into sink.standstill (destination, cause, began_at, ended_at)
    select name, 'breaker', opened_at, greatest(sink.now(), opened_at) from held
    where opened_at is not null
    on conflict (destination, cause, began_at) do update set ended_at = excluded.ended_at
)

select name from closed;

-- name: find_drift
-- Destinations that do not count what is being sent, or wait for a probe that nobody makes. One snapshot sees a message
-- and what counts it move together.
with sending as (
    select destination, count(*)::int as messages from sink.outbox
    where state = 'sending'
    group by destination
)

select d.name
from sink.destination as d
left join sending on sending.destination = d.name
where d.sending <> coalesce(sending.messages, 0) or (d.breaker = 'probing' and sending.messages is null);

-- name: lock_destinations
-- Whoever counts there waits.
select name from sink.destination
where name = any(:destinations)
order by name
for no key update;

-- name: recount_sending
-- Count again what is being sent. Its caller has locked the destinations in an earlier statement, so that nobody counts
-- meanwhile and this one sees all that was counted before.
with sending as (
    select destination, count(*)::int as messages from sink.outbox
    where state = 'sending' and destination = any(:destinations)
    group by destination
)

update sink.destination as d
set
    sending = coalesce(sending.messages, 0),
    breaker = case when d.breaker = 'probing' and sending.messages is null then 'open' else d.breaker end,
    probe_at = case when d.breaker = 'probing' and sending.messages is null then sink.now() else d.probe_at end
from unnest(:destinations::text[]) as drifted (name)
left join sending on sending.destination = drifted.name
where d.name = drifted.name
returning d.name;

-- name: find_destinations
-- What all workers together know of these destinations.
select name, sending, breaker, reason, opened_at, probe_at
from sink.destination
where name = any(:destinations);
