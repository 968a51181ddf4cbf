-- name: find_requests
-- The live claims with these request ids.
select item.position, r.id, r.parameters
from unnest(:positions::int[], :principals::text[], :queues::text[], :agents::text[], :request_ids::text[])
    as item (position, principal, queue, agent, request_id)
inner join sink.claim_request as r
    on
        r.principal = item.principal and r.queue = item.queue
        and r.agent = item.agent and r.request_id = item.request_id
where r.expires_at > sink.now();

-- name: remember_requests
-- The first claim with a request id, or the first after the old one's lease, keeps it, in one order for everybody. A
-- row less than asked for: somebody else has it.
insert into sink.claim_request as r (id, principal, queue, agent, request_id, parameters, expires_at)
select
    item.id, item.principal, item.queue, item.agent, item.request_id, item.parameters,
    sink.now() + make_interval(secs => item.lease_seconds)
from unnest(
    :ids::uuid[], :principals::text[], :queues::text[], :agents::text[], :request_ids::text[], :parameters::text[],
    :leases::int[]
) as item (id, principal, queue, agent, request_id, parameters, lease_seconds)
order by
    item.principal collate "C", item.queue collate "C", item.agent collate "C", item.request_id collate "C"
on conflict (principal, queue, agent, request_id) do update
set id = excluded.id, parameters = excluded.parameters, expires_at = excluded.expires_at
where r.expires_at <= sink.now()
returning r.id;

-- name: forget_request
-- Nobody has its answer, and nothing of it holds: the same request is a new one.
delete from sink.claim_request as r
where
    r.principal = :principal and r.queue = :queue and r.agent = :agent and r.request_id = :request_id
    and not exists (
        select from sink.attempt as a
        inner join sink.turn as t on t.id = a.turn and t.token = a.token
        where a.request = r.id
    )
returning r.id;

-- name: forget_requests
-- Claim requests whose lease is over, a bounded number.
delete from sink.claim_request
where ctid = any(array(
    select ctid from sink.claim_request
    where expires_at <= sink.now()
    order by expires_at
    limit :rows_max
    for update skip locked
))
returning id;
