-- name: take_allowance
-- Take up to so many of the tokens that a queue's rate has added up to. A queue that nobody asked for yet has no row.
-- Who waited for the row sees it as it is now, perhaps later than its own clock.
with seen as (
    select
        a.queue,
        greatest(a.tokens_at, sink.now()) as at,
        least(
            :burst::double precision,
            a.tokens + :rate::double precision * greatest(extract(epoch from sink.now() - a.tokens_at), 0)
        ) as tokens
    from sink.allowance as a
    where a.queue = :queue
    for no key update
),

taken as (
    select queue, at, tokens, least(floor(tokens), :wanted::int) as given from seen
)

update sink.allowance as a
set tokens = taken.tokens - taken.given, tokens_at = taken.at
from taken
where a.queue = taken.queue
returning
    taken.given::int as given,
    greatest((1 - a.tokens) / :rate::double precision, 0)::double precision as next_in_seconds;

-- name: open_allowance
-- The first who asks for a queue finds a full burst.
insert into sink.allowance (queue, tokens, tokens_at)
values (:queue, :burst, sink.now())
on conflict do nothing;
