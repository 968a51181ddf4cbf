-- name: find_lapsed_turns
-- Turns whose lease is over, longest first.
select id, token
from sink.turn
where state = 'processing' and lease_expires_at <= sink.now()
order by lease_expires_at, id
limit :turns_max;

-- name: find_lapsed_messages
-- Messages whose delivery lease is over, longest first. Their age does not count when their destination stood still.
select
    id, attempt_id, destination, attempts_used, may_have_arrived, hold_unknown,
    greatest(
        extract(epoch from sink.now() - o.due_since) - coalesce(
            (
                select sum(extract(epoch from upper(still.span) - lower(still.span)))
                from unnest(
                    (
                        select range_agg(
                            tstzrange(greatest(s.began_at, o.due_since), coalesce(s.ended_at, sink.now()))
                        )
                        from sink.standstill as s
                        where
                            s.destination in (o.destination, '')
                            and (s.ended_at is null or s.ended_at > o.due_since)
                            and s.began_at < sink.now() and o.due_since < sink.now()
                    )
                ) as still (span)
            ),
            0
        ),
        0
    )::double precision as age_seconds
from sink.outbox as o
where state = 'sending' and lease_expires_at <= sink.now()
order by lease_expires_at, id
limit :messages_max;
