-- name: tell_of_spoiled
-- That what is stored of these held sets is not what was sealed: somebody is told, once at a time.
insert into sink.notice (turn, queue, kind, reason, noted_at)
select t.id, t.queue, 'escalation', 'integrity', sink.now()
from sink.turn as t
where
    t.id = any(:turns)
    and not exists (
        select from sink.notice as n where n.queue = t.queue and n.turn = t.id and n.reason = 'integrity'
    )
order by t.id;
