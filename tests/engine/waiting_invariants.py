"""What must hold at any moment of what waits: held sets, parked turns, follow-ups to come, and who is to be told."""

RULES = {
    "a hold is open if and only if its turn waits for a decision, and is of the set that the turn shows": """
        select coalesce(t.id, h.turn) from (
            select id, seal, payload_hash from sink.turn where state in ('held', 'escalated')
        ) as t
        full join (
            select * from sink.hold where decision is null
        ) as h on h.turn = t.id and h.seal = t.seal and h.payload_hash = t.payload_hash
        where t.id is null or h.turn is null
    """,
    "a held message is of the set that waits, and nothing else of that set has moved": """
        select o.id from sink.outbox as o inner join sink.turn as t on t.id = o.turn
        where (o.state = 'held') <> (t.state in ('held', 'escalated') and o.seal = t.seal)
    """,
    "a held message has no place, no attempt and nobody that it waits for": """
        select id from sink.outbox
        where state = 'held' and (place is not null or attempts > 0 or blocked_by is not null or left_lane)
    """,
    "of all sets of a turn only the last is live": """
        select o.id from sink.outbox as o inner join sink.turn as t on t.id = o.turn
        where (o.seal < t.seal or t.payload_hash is null or t.state = 'cancelled') and o.state <> 'cancelled'
    """,
    "a key is that of one message, or of a cancelled one and of those that replaced it": """
        select max(o.id::text)::uuid from sink.outbox_payload as p inner join sink.outbox as o on o.id = p.message
        group by p.key
        having count(*) filter (where o.state <> 'cancelled') > 1 or count(distinct o.turn) > 1
    """,
    "a turn is parked if and only if the wait of its last attempt goes on": """
        select coalesce(t.id, w.turn) from (
            select id, attempt, deadline_at from sink.turn where state = 'parked'
        ) as t
        full join (
            select * from sink.wait where ended is null
        ) as w on w.turn = t.id and w.attempt = t.attempt and w.deadline_at = t.deadline_at
        where t.id is null or w.turn is null
    """,
    "a parked turn waits for nothing that it was told": """
        select w.turn from sink.wait as w
        inner join sink.signal as s on s.turn = w.turn and s.name = w.name and s.dropped_at is null
        where w.ended is null
    """,
    "who waited has parked in that attempt": """
        select w.turn from sink.wait as w
        left join sink.attempt as a on a.turn = w.turn and a.number = w.attempt and a.ended = 'parked'
        where a.turn is null
    """,
    "a turn counts its parks and its revisions": """
        select t.id from sink.turn as t
        where t.parks <> (select count(*) from sink.attempt as a where a.turn = t.id and a.ended = 'parked')
            or t.revisions <> (select count(*) from sink.hold as h where h.turn = t.id and h.decision = 'revise')
    """,
    "a follow-up is held as long as its set is": """
        select f.turn from sink.follow_up as f inner join sink.turn as t on t.id = f.turn
        where (f.state = 'held') <> (t.state in ('held', 'escalated') and f.seal = t.seal)
    """,
    "a follow-up has a turn if and only if it was let go": """
        select f.turn from sink.follow_up as f
        left join sink.turn as c on c.id = f.child
        left join sink.tombstone as g on g.id = f.child
        where case
            when f.state = 'accepted' then c.id is null and g.id is null
            else c.id is not null and not exists (
                select from sink.follow_up as a where a.child = f.child and a.state = 'accepted'
            )
        end
    """,
    "a turn below another was asked for there, and stands one deeper": """
        select c.id from sink.turn as c
        where c.depth > 0 and not exists (
            select from sink.follow_up as f inner join sink.turn as p on p.id = f.turn
            where f.child = c.id and f.state = 'accepted' and c.depth = p.depth + 1
                and c.root = coalesce(p.root, p.id)
        ) and not exists (select from sink.tombstone as g where g.id = c.root)
            and exists (select from sink.turn as r where r.id = c.root)
    """,
    "who tells of another has no input, and nobody tells of him": """
        select t.id from sink.turn as t
        where t.about is not null and (
            t.inbound_count <> 0 or t.attempt > 0 or t.conversation is not null
            or exists (select from sink.turn as o where o.about = t.id)
        )
    """,
    "nothing that waits hangs on what is gone": """
        select turn from sink.hold where turn not in (select id from sink.turn)
        union all select turn from sink.wait where turn not in (select id from sink.turn)
        union all select turn from sink.signal where turn not in (select id from sink.turn)
        union all select turn from sink.follow_up where turn not in (select id from sink.turn)
    """,
}
