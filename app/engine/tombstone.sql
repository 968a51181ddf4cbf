-- name: find_tombstone
-- What is left of a turn, an inbound or a message that was purged.
select id, turn, queue, state, purged_at, expires_at from sink.tombstone where id = :id;
