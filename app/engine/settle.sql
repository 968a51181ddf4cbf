-- name: settle_messages
-- Write the verdict on each attempt whose lease still holds; with lapsed only where it is over.
with item as (
    select * from unnest(
        :messages::uuid[], :attempt_ids::uuid[], :states::text[], :delays::double precision[], :counted::boolean[],
        :may_have_arrived::boolean[], :reasons::text[], :receipts::text[], :statuses::int[], :excerpts::text[]
    ) as t (
        message, attempt_id, state, delay_seconds, counted,
        may_have_arrived, reason, receipt, status, excerpt
    )
),

held as materialized (
    select o.id, o.attempt_id
    from item
    inner join sink.outbox as o on o.id = item.message and o.attempt_id = item.attempt_id
    where not :lapsed or o.lease_expires_at <= sink.now()
    order by o.id
    for no key update of o
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
    from held, item
    where
        o.id = held.id and o.attempt_id = held.attempt_id and item.message = o.id and item.attempt_id = held.attempt_id
    returning o.id, o.turn, o.state, o.attempts, item.attempt_id, item.reason, item.status, item.excerpt, item.receipt
),

noted as (
    insert into sink.event (turn, message, verb, from_state, to_state, attempt, attempt_id, reason, detail)
    select
        turn, id, :verb, 'sending', state, attempts, attempt_id, reason,
        nullif(jsonb_strip_nulls(jsonb_build_object('status', status, 'answer', excerpt, 'receipt', receipt)), '{}')
    from settled
)

select id, turn, state, attempt_id from settled;
