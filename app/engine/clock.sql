-- name: read_clock
-- The server's own clock, which tests do not move, in seconds since 1970.
select extract(epoch from clock_timestamp())::double precision as seconds;
