-- name: store_loopback
-- Keep what arrived; the same key again is the same message, counted.
insert into sink.loopback as l (
    key, queue, conversation, destination, content_type, headers, body, first_at, last_at, times
)
values (
    :key, :queue, :conversation, :destination, :content_type, :headers::jsonb, :body, sink.now(), sink.now(), 1
)
on conflict (key) do update set last_at = excluded.last_at, times = l.times + 1
returning l.times;

-- name: list_loopback
-- What arrived last, newest first; of all queues, or of these; behind what was listed before, if anything was.
select key, queue, conversation, destination, content_type, headers, body, first_at, last_at, times
from sink.loopback
where
    (:queues::text[] is null or queue = any(:queues))
    and (:after_key::text is null or (last_at, key) < (:after_at::timestamptz, :after_key))
order by last_at desc, key desc
limit :rows_max;
