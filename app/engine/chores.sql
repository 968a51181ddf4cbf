-- name: find_chores
-- What there is to do for the sweep, one index probe each: the order keeps a plan from walking through rows that are
-- many and never due. What a source holds up that is still paused is passed by.
with recursive holding (source) as (
    (
        select t.held_source from sink.turn as t
        where t.held_source is not null and t.state = 'scheduled'
        order by t.held_source limit 1
    )
    union all
    select (
        select t.held_source from sink.turn as t
        where t.held_source is not null and t.state = 'scheduled' and t.held_source > holding.source
        order by t.held_source limit 1
    )
    from holding
    where holding.source is not null
)

select chore
from (
    values
    (
        'turns',
        (select lease_expires_at from sink.turn where state = 'processing' order by lease_expires_at, id limit 1)
        <= sink.now()
    ),
    (
        'messages',
        (select lease_expires_at from sink.outbox where state = 'sending' order by lease_expires_at, id limit 1)
        <= sink.now()
    ),
    -- What waits for a person ends at its deadline as its queue says: where that is known here.
    (
        'deadlines',
        exists (
            select from unnest(:queues::text[]) as q (queue)
            where (
                select t.deadline_at from sink.turn as t
                where t.state in ('held', 'escalated') and t.queue = q.queue
                order by t.queue, t.deadline_at, t.id limit 1
            ) <= sink.now()
        )
    ),
    (
        'wakes',
        (
            select true from sink.turn
            where state = 'parked' and deadline_at <= sink.now()
            order by deadline_at, id limit 1
        )
    ),
    ('due', (select due_at from sink.turn where state = 'scheduled' order by due_at, id limit 1) <= sink.now()),
    (
        'held',
        exists (
            select from holding
            where
                holding.source is not null
                and not exists (select from sink.pause as p where p.kind = 'source' and p.name = holding.source)
        )
    ),
    (
        'notices',
        exists (
            select from unnest(:queues::text[]) as q (queue)
            where (select n.id from sink.notice as n where n.queue = q.queue order by n.queue, n.id limit 1) is not null
        )
    ),
    ('requests', exists (select from sink.claim_request where expires_at <= sink.now())),
    ('operations', exists (select from sink.operation where state = 'running'))
) as look (chore, found)
where found;
