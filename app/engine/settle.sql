-- name: settle_messages
-- Write the verdict on each attempt whose lease still holds; with lapsed only where it is over. What failed while the
-- breaker of its destination is not closed is spared: it goes back, and its attempt is not counted.
with told as (
    select * from unnest(
        :messages::uuid[], :attempt_ids::uuid[], :states::text[], :delays::double precision[], :counted::boolean[],
        :may_have_arrived::boolean[], :reasons::text[], :receipts::text[], :statuses::int[], :excerpts::text[],
        :spare_delays::double precision[], :spare_reasons::text[]
    ) as t (
        message, attempt_id, state, delay_seconds, counted,
        may_have_arrived, reason, receipt, status, excerpt, spare_delay_seconds, spare_reason
    )
),

place as materialized (
    select d.name, d.breaker
    from sink.destination as d
    where d.name in (select o.destination from told inner join sink.outbox as o on o.id = told.message)
),

held as materialized (
    select
        o.id, told.*,
        told.spare_delay_seconds is not null
        and o.destination in (select p.name from place as p where p.breaker <> 'closed') as is_spared
    from told
    inner join sink.outbox as o on o.id = told.message and o.attempt_id = told.attempt_id
    where not :lapsed or o.lease_expires_at <= sink.now()
    order by o.id
    for no key update of o
),

item as (
    select
        id, attempt_id, may_have_arrived, receipt, status, excerpt,
        case when is_spared then 'pending' else state end as state,
        case when is_spared then spare_delay_seconds else delay_seconds end as delay_seconds,
        case when is_spared then spare_reason else reason end as reason,
        counted and not is_spared as counted
    from held
),

settled as (
    update sink.outbox as o
    set
        state = case when o.cancel_asked and item.state <> 'delivered' then 'cancelled' else item.state end,
        reason = case when o.cancel_asked and item.state <> 'delivered' then 'cancelled' else item.reason end,
        due_at
        = case
            when item.state = 'pending' then sink.now() + make_interval(secs => item.delay_seconds) else o.due_at
        end,
        attempts_used = o.attempts_used - (not item.counted)::int,
        may_have_arrived = o.may_have_arrived or item.may_have_arrived,
        attempt_id = null,
        cancel_asked = false,
        lease_expires_at = null,
        delivered_at = case when item.state = 'delivered' then sink.now() end,
        receipt = item.receipt
    from item
    where o.id = item.id and o.attempt_id = item.attempt_id
    returning
        o.id, o.turn, o.queue, o.destination, o.state, o.attempts,
        item.attempt_id, item.reason, item.status, item.excerpt, item.receipt
),

noted as (
    insert into sink.event (turn, message, verb, from_state, to_state, attempt, attempt_id, reason, detail)
    select
        turn, id, :verb, 'sending', state, attempts, attempt_id, reason,
        nullif(jsonb_strip_nulls(jsonb_build_object('status', status, 'answer', excerpt, 'receipt', receipt)), '{}')
    from settled
),

-- Somebody is told of what a person must decide, and never of what itself was to tell somebody.
telling as (
    insert into sink.notice (turn, message, queue, kind, reason, noted_at)
    select s.turn, s.id, s.queue, 'escalation', s.reason, sink.now()
    from settled as s
    where
        s.state in ('dead', 'unknown')
        and (select t.about from sink.turn as t where t.id = s.turn) is null
)

select id, turn, destination, state, attempt_id from settled;
