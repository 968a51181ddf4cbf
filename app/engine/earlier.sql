-- name: find_earlier
-- What came before this take of messages that are being sent: for how long they have waited while they might have been
-- sent, what became of earlier attempts, and the capability of what they answer.
with item as (
    select o.*, told.key_ttl_seconds
    from unnest(:messages::uuid[], :key_ttls::double precision[]) as told (message, key_ttl_seconds)
    inner join sink.outbox as o on o.id = told.message
),

stillness as materialized (
    -- A clock that went back is behind what it said before.
    select s.destination, tstzrange(s.began_at, greatest(coalesce(s.ended_at, sink.now()), s.began_at)) as span
    from sink.standstill as s
    where
        (s.destination = '' or s.destination in (select destination from item))
        and (s.ended_at is null or s.ended_at > (select min(due_since) from item))
)

select
    o.id,
    greatest(
        extract(epoch from sink.now() - o.due_since) - coalesce(
            (
                select sum(extract(epoch from upper(still.span) - lower(still.span)))
                from unnest(
                    (
                        select range_agg(s.span * tstzrange(o.due_since, greatest(sink.now(), o.due_since)))
                        from stillness as s
                        where s.destination in (o.destination, '') and upper(s.span) > o.due_since
                    )
                ) as still (span)
                where not isempty(still.span)
            ),
            0
        ),
        0
    )::double precision as age_seconds,
    -- Its key's memory began with an attempt, and has ended since. Nobody has wanted it in spite of that.
    case
        when o.may_have_arrived and o.key_ttl_seconds is not null then exists (
            select from sink.event as e
            where
                e.turn = o.turn and e.message = o.id and e.verb = 'take'
                and e.at <= sink.now() - make_interval(secs => o.key_ttl_seconds)
                and not exists (
                    select from sink.event as r
                    where
                        r.turn = e.turn and r.message = e.message and r.verb = 'redrive'
                        and r.at >= e.at + make_interval(secs => o.key_ttl_seconds)
                )
        )
        else false
    end as is_key_expired,
    -- The last that was done to it, before this take: a person wanted it sent, whatever had become of it.
    case
        when o.may_have_arrived then (
            select e.verb = 'redrive' from sink.event as e
            where e.turn = o.turn and e.message = o.id and e.attempt_id is distinct from o.attempt_id
            order by e.id desc limit 1
        )
        else false
    end as is_wanted,
    case
        when o.may_have_arrived then (
            select min(e.at) from sink.event as e
            where
                e.turn = o.turn and e.message = o.id and e.verb = 'take'
                and e.attempt_id is distinct from o.attempt_id
        )
    end as first_attempted_at,
    case
        when p.reply_of is not null and o.expires_at > sink.now() then (
            select i.reply from sink.inbound as i where i.id = p.reply_of
        )
    end as reply
from item as o
left join sink.outbox_payload as p on p.message = o.id;
