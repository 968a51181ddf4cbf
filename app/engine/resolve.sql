-- name: resolve_messages
-- Somebody looked: what was unknown has arrived, or is wanted no more. Its caller holds the locks.
with held as materialized (
    select id, state from sink.outbox
    where id = any(:messages)
    order by id
    for no key update
),

resolved as (
    update sink.outbox as o
    set
        state = :state,
        reason = case when :state = 'cancelled' then 'resolved' end,
        delivered_at = case when :state = 'delivered' then sink.now() end
    from held
    where o.id = held.id and o.state = 'unknown'
    returning o.id, o.turn, o.state
),

noted as (
    insert into sink.event (turn, message, verb, from_state, to_state, reason, detail)
    select turn, id, 'resolve', 'unknown', state, 'resolved', jsonb_build_object('by', :by::text) from resolved
)

select held.id, resolved.turn, coalesce(resolved.state, held.state) as state
from held
left join resolved using (id);
