-- name: renew_leases
-- Restore the claimed lease of every token that still holds. Until it is swept the holder holds, lapsed or not.
with held as materialized (
    select t.id, t.token
    from unnest(:turns::uuid[], :tokens::uuid[]) as item (turn, token)
    inner join sink.turn as t on t.id = item.turn and t.token = item.token
    order by t.id
    for no key update of t
)

update sink.turn as t
set lease_expires_at = sink.now() + make_interval(secs => t.lease_seconds)
from held
where t.id = held.id and t.token = held.token
returning
    t.id, t.token, t.lease_seconds::double precision as expires_in_seconds,
    (
        -- Counted as far as it matters to an agent: a long queue behind it is a long queue.
        select coalesce(sum(newer.inbound_count), 0)
        from (
            select w.inbound_count from sink.turn as w
            where
                w.queue = t.queue and w.conversation = t.conversation and w.state = 'waiting'
                and w.lane_seq > t.lane_seq
            order by w.lane_seq limit 100
        ) as newer
    ) as newer_inbound;

-- name: record_usage
-- Each field keeps the greatest total that was ever told, so that reports may come late, twice and out of order. Those
-- that were told first are kept, up to a number: a new name each time must not become a row without end.
update sink.attempt as a
set usage = (
    select jsonb_object_agg(total.field, total.amount)
    from (
        select told.field, max(told.amount) as amount
        from (
            select e.key as field, (e.value)::numeric as amount, 0 as later from jsonb_each_text(a.usage) as e
            union all
            select e.key as field, (e.value)::numeric as amount, 1 as later
            from jsonb_each_text(item.usage::jsonb) as e
        ) as told
        group by told.field
        order by min(told.later), told.field
        limit :fields_max
    ) as total
)
from unnest(:turns::uuid[], :tokens::uuid[], :usages::text[]) as item (turn, token, usage)
where a.turn = item.turn and a.token = item.token;
