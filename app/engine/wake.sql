-- name: notify
-- Tell the other processes.
select pg_notify(:channel, :payload);
