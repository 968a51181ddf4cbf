-- name: tell_of_spoiled
-- That what is stored of these held sets is not what was sealed: somebody is told, once for each set that waits.
insert into sink.notice (turn, queue, kind, reason, noted_at)
select t.id, t.queue, 'escalation', 'integrity', sink.now()
from sink.turn as t
where
    t.id = any(:turns)
    and not exists (
        select from sink.notice as n where n.queue = t.queue and n.turn = t.id and n.reason = 'integrity'
    )
    and not exists (
        select from sink.turn as told
        inner join sink.event as e on e.turn = told.id
        inner join sink.hold as h on h.turn = t.id and h.seal = t.seal
        where
            told.about = t.id and told.created_at >= h.held_at
            and e.verb = 'escalate' and e.reason = 'integrity'
    )
order by t.id;
