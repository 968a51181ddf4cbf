-- name: claim_turns
-- Lease the next due turns of each queue to the requests for it, counting the attempt now, so that a crash counts.
-- Priorities are walked one by one, so that any number of higher ones that back off costs nothing. Locked rows are
-- skipped, so a claim never waits. A request gets its share of its queue's turns, as far as its answer has room; the
-- first turn always fits. A paused queue gives nothing. Turns whose input is too old are given to nobody, and told
-- without a position: whoever ends them needs their lanes before. A priority that has a mark is read from there.
-- What a turn is about comes with it, a row each, as far as this statement sees it: who joined since is counted, and
-- missing. `found` counts the turns that were due and free, given to somebody or not.
with recursive wanted as (
    select item.queue, item.turns, item.age_seconds_max
    from unnest(:wanted_queues::text[], :wanted_turns::int[], :wanted_ages::double precision[])
        as item (queue, turns, age_seconds_max)
    where
        not exists (
            select from sink.pause as p where p.kind = 'all' or (p.kind = 'queue' and p.name = item.queue)
        )
),

mark as (
    select *
    from unnest(:mark_queues::text[], :mark_priorities::int[], :marks::timestamptz[]) as t (queue, priority, due_from)
),

-- Above the highest there is, and then down: to the next that has a mark, unless one without is between.
rung (queue, turns, priority, due_from) as (
    select queue, turns, 101, null::timestamptz from wanted
    union all
    select
        rung.queue,
        rung.turns,
        coalesce(unmarked.priority, marked.priority),
        case when unmarked.priority is null then marked.due_from end
    from rung
    left join lateral (
        select mark.priority, mark.due_from
        from mark
        where mark.queue = rung.queue and mark.priority < rung.priority
        order by mark.priority desc limit 1
    ) as marked on true
    left join lateral (
        select t.priority::int as priority from sink.turn as t
        where
            t.queue = rung.queue and t.state = 'queued'
            and t.priority < rung.priority and t.priority > coalesce(marked.priority, -101)
        order by t.priority desc limit 1
    ) as unmarked on true
    where coalesce(unmarked.priority, marked.priority) is not null
),

candidate as materialized (
    select
        wanted.queue, found.id, found.input_bytes, found.priority, found.due_at,
        coalesce(
            found.ages_from < sink.now() - make_interval(secs => wanted.age_seconds_max), false
        ) as is_too_old
    from wanted
    cross join lateral (
        select picked.*
        from rung
        cross join lateral (
            select
                t.id, t.priority, t.due_at, coalesce(t.ages_from, t.created_at) as ages_from,
                t.input_bytes + coalesce(t.said_bytes, 0) as input_bytes
            from sink.turn as t
            where
                t.queue = rung.queue and t.priority = rung.priority and t.state = 'queued'
                and t.due_at <= sink.now() and t.due_at >= coalesce(rung.due_from, '-infinity')
            order by t.due_at, t.id
            limit rung.turns
            for update skip locked
        ) as picked
        where rung.queue = wanted.queue
        limit wanted.turns -- noqa: AM09
    ) as found
),

share as (
    select
        ranked.id,
        ranked.nth,
        request.*,
        sum(ranked.input_bytes) over (partition by request.position order by ranked.nth) as bytes_so_far,
        ranked.nth - request.taken_before as nth_of_request
    from (
        select id, queue, input_bytes, row_number() over (partition by queue order by priority desc, due_at, id) as nth
        from candidate
        where not is_too_old
    ) as ranked
    inner join
        unnest(
            :positions::int[], :queues::text[], :agents::text[], :turns_max::int[], :taken_before::int[],
            :leases::int[], :code_versions::text[], :requests::uuid[], :answer_bytes::bigint[]
        )
            as request (
                position, queue, agent, turns_max, taken_before,
                lease_seconds, code_version, request, answer_bytes_max
            )
        on
            request.queue = ranked.queue
            and ranked.nth > request.taken_before and ranked.nth <= request.taken_before + request.turns_max
),

claimed as (
    update sink.turn as t
    set
        state = 'processing',
        attempt = t.attempt + 1,
        attempts_used = t.attempts_used + 1,
        token = gen_random_uuid(),
        lease_seconds = share.lease_seconds,
        lease_expires_at = sink.now() + make_interval(secs => share.lease_seconds)
    from share
    where t.id = share.id and (share.bytes_so_far <= share.answer_bytes_max or share.nth_of_request = 1)
    returning
        t.id, t.attempt, t.token, t.lease_seconds, t.conversation, coalesce(t.ages_from, t.created_at) as came_at,
        t.queue, t.priority, t.due_at, t.inbound_count,
        share.position, share.nth, share.agent, share.code_version, share.request
),

attempted as (
    insert into sink.attempt (turn, number, token, agent, code_version, request, claimed_at)
    select id, attempt, token, agent, code_version, request, sink.now()
    from claimed
),

noted as (
    insert into sink.event (turn, verb, from_state, to_state, attempt, detail)
    select id, 'claim', 'queued', 'processing', attempt, jsonb_build_object('agent', agent)
    from claimed
)

select
    c.position, c.nth, c.id, c.queue, c.priority, c.due_at, c.attempt, c.token,
    c.lease_seconds::double precision as expires_in_seconds, c.conversation, c.inbound_count,
    case when c.attempt = 1 then extract(epoch from sink.now() - c.came_at)::double precision end as waited_seconds,
    i.id as inbound, i.position as inbound_position, i.source, i.received_at, i.content_type, i.headers, i.metadata,
    i.body, i.strict_json, i.view, (select count(*) from candidate) as found
from claimed as c
left join sink.inbound as i on i.turn = c.id
union all
select
    null, null, id, null, null, null, null, null, null, null, null,
    null, null, null, null, null, null, null, null, null, null, null, null
from candidate
where is_too_old;

-- name: find_stepped
-- What this session has read of the index of what is queued, live or not, and what time it is.
select pg_stat_get_xact_tuples_returned('sink.turn_queued'::regclass) as entries, sink.now() as at;
