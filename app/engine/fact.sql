-- name: record_facts
-- A delivery that was seen is true, whoever has the lease now. Only an attempt that was recorded can have seen one.
with item as (
    select * from unnest(:messages::uuid[], :attempt_ids::uuid[], :receipts::text[], :statuses::int[])
        as t (message, attempt_id, receipt, status)
),

known as materialized (
    select o.id, o.state as from_state, item.attempt_id, item.receipt, item.status, e.attempt
    from item
    inner join sink.outbox as o on o.id = item.message
    inner join sink.event as e
        on e.turn = o.turn and e.message = o.id and e.attempt_id = item.attempt_id and e.verb = 'take'
    where o.state in ('pending', 'sending', 'dead', 'unknown', 'cancelled')
    order by o.id
    for no key update of o
),

delivered as (
    update sink.outbox as o
    set
        state = 'delivered',
        reason = null,
        blocked_by = null,
        due_since = coalesce(o.due_since, o.due_at),
        may_have_arrived = true,
        attempt_id = null,
        cancel_asked = false,
        lease_expires_at = null,
        delivered_at = sink.now(),
        receipt = known.receipt
    from known
    where o.id = known.id and o.state in ('pending', 'sending', 'dead', 'unknown', 'cancelled')
    returning
        o.id, o.turn, o.destination, o.state,
        known.from_state, known.attempt, known.attempt_id, known.receipt, known.status
),

noted as (
    insert into sink.event (turn, message, verb, from_state, to_state, attempt, attempt_id, detail)
    select
        turn, id, 'fact', from_state, 'delivered', attempt, attempt_id,
        nullif(jsonb_strip_nulls(jsonb_build_object('status', status, 'receipt', receipt)), '{}')
    from delivered
)

select id, turn, destination, state, from_state from delivered;
