-- name: add_pause
-- Stop something. The first who stopped it is kept. While a destination stands, its messages do not age.
with stopped as (
    insert into sink.pause (kind, name, paused_at, paused_by, reason)
    values (:kind, :name, sink.now(), :by, :reason)
    on conflict do nothing
    returning kind, name, paused_at
)

insert into sink.standstill (destination, cause, began_at)
select name, 'pause', paused_at
from stopped
where kind in ('all', 'destination')
-- Stopped again within one tick of the clock.
on conflict (destination, cause, began_at) do update set ended_at = null;

-- name: wait_for_takes
-- Whoever waits for a destination has looked for pauses before this one: what he takes is taken before it is answered.
select name from sink.destination
where :name = '' or name = :name
order by name
for no key update;

-- name: drop_pause
-- Let something go on.
with resumed as (
    delete from sink.pause
    where kind = :kind and name = :name
    returning kind, name
)

update sink.standstill as s
set ended_at = greatest(sink.now(), s.began_at)
from resumed
where
    resumed.kind in ('all', 'destination')
    and s.destination = resumed.name and s.cause = 'pause' and s.ended_at is null;

-- name: find_pauses
-- Everything that is stopped.
select kind, name, paused_at, paused_by, reason
from sink.pause
order by kind, name;
