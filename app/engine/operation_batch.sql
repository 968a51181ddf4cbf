-- name: hold_operation
-- Work on an operation, unless somebody else does. Its row is locked before everything else.
select
    id, kind, verb, filter, queues, reason, state, created_at, created_by, ended_at, last_id, until_id, found, changed,
    refused, failed
from sink.operation
where id = :id and state = 'running'
for update skip locked;

-- name: advance_operation
-- Note what came of a batch, and that the operation is done where nothing is left.
update sink.operation
set
    last_id = coalesce(:last_id, last_id),
    found = found + :found,
    changed = changed + :changed,
    refused = refused + :refused,
    failed = failed + :failed,
    state = case when :done then 'done' else state end,
    ended_at = case when :done then sink.now() else ended_at end
where id = :id and state = 'running'
returning
    id, kind, verb, filter, queues, reason, state, created_at, created_by, ended_at, last_id, until_id, found, changed,
    refused, failed;

-- name: still_turns
-- Which of these turns, now that they are locked, are still what was asked for.
select id from sink.turn
where id = any(:turns) and state = any(:states) and (:reason::text is null or reason = :reason)
order by id;

-- name: still_messages
-- Which of these messages, now that they are locked, are still what was asked for.
select id from sink.outbox
where id = any(:messages) and state = any(:states) and (:reason::text is null or reason = :reason)
order by id;
