-- name: notify
-- Tell the other processes. The server's own clock, which tests do not move, tells how far this machine's is off.
select extract(epoch from clock_timestamp())::double precision as seconds
from pg_notify(:channel, :payload);
