-- name: read_history
-- How the newest attempts of these turns ended, and what was said about them: by the signal that ended a park, or by a
-- reviewer who wants another set. A body is read only where there is room for it. What was said last always has that.
with entry as materialized (
    select
        a.turn, a.number, a.ended, a.reason, a.ended_at,
        w.name, w.ended as wait_ended, w.ended_at as wait_ended_at,
        s.number as signal, s.sent_by, s.sent_with, s.content_type, s.strict_json,
        h.seal, h.decided_by, h.decided_at, h.comment, h.payload_hash,
        coalesce(
            octet_length(s.body),
            case
                when h.seal is not null then (
                    select sum(octet_length(said.body))
                    from (
                        select p.body
                        from sink.outbox as o
                        inner join sink.outbox_payload as p on p.message = o.id
                        where o.turn = a.turn and o.seal = h.seal
                        union all
                        select f.body
                        from sink.follow_up as f
                        where f.turn = a.turn and f.seal = h.seal
                    ) as said
                )
            end,
            0
        ) as bytes
    from unnest(:turns::uuid[]) as item (turn)
    cross join lateral (
        select * from sink.attempt as one
        where one.turn = item.turn and one.ended is not null
        order by one.number desc limit :entries_max
    ) as a
    left join sink.wait as w on w.turn = a.turn and w.attempt = a.number and a.ended = 'parked'
    left join sink.signal as s on s.turn = w.turn and s.name = w.name and s.number = w.signal
    left join sink.hold as h
        on h.turn = a.turn and h.attempt = a.number and h.decision = 'revise' and a.ended = 'sealed'
),

roomed as (
    select
        *,
        sum(bytes) over newer > bytes and sum(bytes) over newer > :bytes_max and bytes > 0 as is_omitted
    from entry
    window newer as (partition by turn order by number desc)
)

select
    r.turn, r.number, r.ended, r.reason, r.ended_at, r.name, r.wait_ended, r.wait_ended_at, r.sent_by, r.sent_with,
    r.content_type, r.strict_json, r.seal, r.decided_by, r.decided_at, r.comment, r.payload_hash, r.is_omitted,
    case
        when not r.is_omitted then (
            select s.body from sink.signal as s
            where s.turn = r.turn and s.name = r.name and s.number = r.signal
        )
    end as body
from roomed as r
order by r.turn, r.number;

-- name: read_void_messages
-- The messages of sets that a reviewer sent back, in their order.
select
    o.turn, o.seal, o.id, o.destination, p.recipient, o.conversation, p.content_type, p.body
from unnest(:turns::uuid[], :seals::int[]) as item (turn, seal)
inner join sink.outbox as o on o.turn = item.turn and o.seal = item.seal
inner join sink.outbox_payload as p on p.message = o.id
order by o.turn, o.seal, o.position;

-- name: read_void_follow_ups
-- What these sets asked for later, in their order. A key of its own says nothing to an agent.
select
    f.turn, f.seal, f.queue, f.conversation, f.delay_seconds, f.not_before, f.content_type, f.body,
    case when f.scope <> :own_scope::text then f.key end as key
from unnest(:turns::uuid[], :seals::int[]) as item (turn, seal)
inner join sink.follow_up as f on f.turn = item.turn and f.seal = item.seal
where f.body is not null
order by f.turn, f.seal, f.position;
