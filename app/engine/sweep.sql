-- name: find_lapsed_turns
-- Turns whose lease is over, longest first.
select id, token
from sink.turn
where state = 'processing' and lease_expires_at <= sink.now()
order by lease_expires_at, id
limit :turns_max;

-- name: find_lapsed_messages
-- Messages whose delivery lease is over, longest first.
select
    id, attempt_id, destination, attempts_used, may_have_arrived,
    greatest(extract(epoch from sink.now() - due_since), 0)::double precision as age_seconds
from sink.outbox
where state = 'sending' and lease_expires_at <= sink.now()
order by lease_expires_at, id
limit :messages_max;
