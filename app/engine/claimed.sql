-- name: read_inbound
-- What claimed turns are about: a statement of its own, so that it sees all that was committed before the claim locked
-- them.
select id as inbound, turn, source, received_at, content_type, headers, metadata, body, strict_json, view
from sink.inbound
where turn = any(:turns)
order by turn, position;

-- name: read_claimed
-- What these requests gave and still hold.
select
    a.request,
    t.id,
    t.attempt,
    t.token,
    t.conversation,
    t.inbound_count,
    greatest(extract(epoch from t.lease_expires_at - sink.now()), 0)::double precision as expires_in_seconds,
    i.id as inbound, i.source, i.received_at, i.content_type, i.headers, i.metadata, i.body, i.strict_json, i.view
from sink.attempt as a
inner join sink.turn as t on t.id = a.turn and t.token = a.token
left join sink.inbound as i on i.turn = t.id
where a.request = any(:requests)
order by t.priority desc, t.due_at, t.id, i.position;
