-- name: find_chores
-- What there is to do, and when the next of it will be due: one index probe each. The order keeps a plan from walking
-- through rows that are many and never due. What a source holds up that is still paused is passed by, and so is what
-- waits in a paused queue or for a paused destination. What is sent once more waits for an open breaker, too: no probe
-- is made with it. What is not :whole leaves out what waits to be claimed, sent or sent once more: each of its probes
-- stands behind that, and is then not begun.
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
),

known as (
    select q.queue from unnest(:queues::text[]) as q (queue)
),

open_queue as (
    select known.queue from known
    where
        :whole::boolean
        and not exists (
            select from sink.pause as p where p.kind = 'all' or (p.kind = 'queue' and p.name = known.queue)
        )
),

-- The priorities of each queue are walked one by one, as a claim does.
rung (queue, priority) as (
    select
        open_queue.queue,
        (
            select t.priority from sink.turn as t
            where t.queue = open_queue.queue and t.state = 'queued'
            order by t.priority desc limit 1
        )
    from open_queue
    union all
    select
        rung.queue,
        (
            select t.priority from sink.turn as t
            where t.queue = rung.queue and t.state = 'queued' and t.priority < rung.priority
            order by t.priority desc limit 1
        )
    from rung
    where rung.priority is not null
),

look (chore, name, at) as (
    select
        'turns', null,
        (select lease_expires_at from sink.turn where state = 'processing' order by lease_expires_at, id limit 1)
    union all
    select
        'messages', null,
        (select lease_expires_at from sink.outbox where state = 'sending' order by lease_expires_at, id limit 1)
    union all
    -- What waits for a person ends at its deadline as its queue says: where that is known here.
    select
        'deadlines', null,
        (
            select t.deadline_at from sink.turn as t
            where t.state in ('held', 'escalated') and t.queue = known.queue
            order by t.queue, t.deadline_at, t.id limit 1
        )
    from known
    union all
    select
        'wakes', null, (select deadline_at from sink.turn where state = 'parked' order by deadline_at, id limit 1)
    union all
    select
        'due', null, (select due_at from sink.turn where state = 'scheduled' order by due_at, id limit 1)
    union all
    select 'held', null, '-infinity'
    from holding
    where
        holding.source is not null
        and not exists (select from sink.pause as p where p.kind = 'source' and p.name = holding.source)
    union all
    select 'notices', null, '-infinity'
    from known
    where (select n.id from sink.notice as n where n.queue = known.queue order by n.queue, n.id limit 1) is not null
    union all
    select 'requests', null, '-infinity'
    where exists (select from sink.claim_request where expires_at <= sink.now())
    union all
    select 'operations', null, '-infinity'
    where exists (select from sink.operation where state = 'running')
    union all
    select
        'claims', rung.queue,
        (
            select t.due_at from sink.turn as t
            where t.queue = rung.queue and t.priority = rung.priority and t.state = 'queued'
            order by t.due_at, t.id limit 1
        )
    from rung
    where rung.priority is not null
    union all
    select
        'deliveries', null,
        (
            select o.due_at from sink.outbox as o
            where o.destination = d.name and o.state = 'pending' and o.blocked_by is null
            order by o.due_at, o.id limit 1
        )
    from unnest(:destinations::text[]) as d (name)
    where
        :whole::boolean
        and not exists (
            select from sink.pause as p where p.kind = 'all' or (p.kind = 'destination' and p.name = d.name)
        )
    union all
    select
        'resends', null,
        (
            select r.due_at from sink.resend as r
            where r.destination = d.name and r.attempt_id is null
            order by r.due_at, r.id limit 1
        )
    from unnest(:destinations::text[]) as d (name)
    where
        :whole::boolean
        and not exists (
            select from sink.pause as p where p.kind = 'all' or (p.kind = 'destination' and p.name = d.name)
        )
        and not exists (select from sink.destination as b where b.name = d.name and b.breaker <> 'closed')
    union all
    select
        'resends', null,
        (
            select lease_expires_at from sink.resend
            where attempt_id is not null
            order by lease_expires_at, id limit 1
        )
    where :whole::boolean
)

select
    chore,
    name,
    case
        when min(at) <= sink.now() then 0
        when min(at) < 'infinity' then extract(epoch from min(at) - sink.now())
    end::double precision as due_in_seconds
from look
where at is not null
group by chore, name;
