-- name: find_schedules
-- Up to when each timed source was looked at, and whether it stands still. Who never was is new.
select
    given.source,
    s.looked_at,
    sink.now() as now,
    exists(
        select from sink.pause as p
        where p.kind = 'all' or (p.kind = 'source' and p.name = given.source)
    ) as is_paused
from unnest(:sources::text[]) as given (source)
left join sink.schedule as s on s.source = given.source
order by given.source;

-- name: note_look
-- Nothing that was due until then is left. A look that comes late takes nothing back, unless the clock itself went.
insert into sink.schedule as s (source, looked_at)
values (:source, :until)
on conflict (source) do update
set looked_at = case when s.looked_at > sink.now() then excluded.looked_at
    else greatest(s.looked_at, excluded.looked_at) end;
