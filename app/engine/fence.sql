-- name: find_attempts
-- What these tokens were given for, and how that ended. A token that was never given has no attempt. The set that was
-- sealed with one is the live set of its turn, unless it was held: then it is the one that was, whatever became of it.
select
    item.turn,
    item.token,
    t.state,
    t.queue,
    t.conversation,
    coalesce(h.seal, t.seal) as seal,
    coalesce(h.payload_hash, t.payload_hash) as payload_hash,
    h.seal is not null as was_held,
    -- A reviewer who changed the set carried along what it had asked for later.
    coalesce(h.seal + (h.decision is not distinct from 'edit')::int, t.seal) as follow_ups_seal,
    a.number as attempt,
    a.ended,
    a.request_hash,
    extract(epoch from sink.now() - a.claimed_at)::double precision as held_seconds,
    extract(epoch from sink.now() - coalesce(t.ages_from, t.created_at))::double precision as age_seconds,
    (
        select last.ended from sink.attempt as last
        where last.turn = item.turn and last.ended is not null
        order by last.number desc limit 1
    ) as last_ended
from unnest(:turns::uuid[], :tokens::uuid[]) as item (turn, token)
inner join sink.turn as t on t.id = item.turn
left join sink.attempt as a on a.turn = item.turn and a.token = item.token
left join sink.hold as h on a.ended = 'sealed' and h.turn = a.turn and h.attempt = a.number;
