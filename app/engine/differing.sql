-- name: note_differing
-- One more body under a key that stands for another one; tells how many different ones there were, up to a bound.
insert into sink.differing as d (source, key, times, bodies, first_at, last_at)
values (:source, :key, 1, array[:body_hash]::bytea[], sink.now(), sink.now())
on conflict (source, key) do update
set
    times = d.times + 1,
    last_at = sink.now(),
    bodies = case
        when :body_hash = any(d.bodies) or cardinality(d.bodies) >= :bodies_max then d.bodies
        else d.bodies || :body_hash
    end
returning cardinality(bodies) as different;

-- name: find_differing
-- The keys of a source under which other bodies came, the last first.
select source, key, times, cardinality(bodies) as different, first_at, last_at
from sink.differing
where source = any(:sources)
order by last_at desc, source, key
limit :rows_max;
