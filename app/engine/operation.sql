-- name: begin_operation
-- What exists now is what it is about: nothing that comes later has an id up to until_id.
insert into sink.operation (id, kind, verb, filter, queues, reason, state, created_at, created_by, until_id)
select
    :id,
    :kind,
    :verb,
    :filter::jsonb,
    :queues::text[],
    :reason,
    'running',
    sink.now(),
    :by,
    coalesce(
        case :kind
            when 'turn' then (select t.id from sink.turn as t order by t.id desc limit 1)
            else (select o.id from sink.outbox as o order by o.id desc limit 1)
        end,
        :id
    )
returning
    id, kind, verb, filter, queues, reason, state, created_at, created_by, ended_at, last_id, until_id, found, changed,
    refused, failed;

-- name: find_operation
-- One operation.
select
    id, kind, verb, filter, queues, reason, state, created_at, created_by, ended_at, last_id, until_id, found, changed,
    refused, failed
from sink.operation
where id = :id;

-- name: list_operations
-- Operations, newest first; for a key with queues those that are about nothing else.
select
    id, kind, verb, filter, queues, reason, state, created_at, created_by, ended_at, last_id, until_id, found, changed,
    refused, failed
from (select * from sink.operation where id < :before order by id desc limit 5000) as near -- noqa: AM04
where :queues::text[] is null or queues <@ :queues
order by id desc
limit :rows_max;

-- name: running_operations
-- What there is to work on, oldest first.
select id from sink.operation
where state = 'running'
order by id
limit :rows_max;

-- name: cancel_operation
-- Stop an operation where it is. What it has done stays done.
update sink.operation
set state = 'cancelled', ended_at = sink.now()
where id = :id and state = 'running'
returning
    id, kind, verb, filter, queues, reason, state, created_at, created_by, ended_at, last_id, until_id, found, changed,
    refused, failed;

-- name: queue_is_known
-- Whether anything was ever accepted for a queue, as far as it is remembered.
select coalesce(
    (
        select k.scope from sink.idempotency_key as k where k.scope >= 'queue/' || :queue order by k.scope limit 1
    ) = 'queue/' || :queue,
    false
) as is_known;
