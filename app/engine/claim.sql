-- name: claim_turns
-- Lease the next due turns of each queue to the requests for it, counting the attempt now, so that a crash counts.
-- Priorities are walked one by one, so that any number of higher ones that back off costs nothing. Locked rows are
-- skipped, so a claim never waits. A request gets its share of its queue's turns, as far as its answer has room; the
-- first turn always fits. A paused queue gives nothing. Turns whose input is too old are given to nobody, and told
-- without a position: whoever ends them needs their lanes before.
with recursive request as (
    select
        t.*,
        coalesce(
            sum(turns_max) over (partition by queue order by position rows between unbounded preceding and 1 preceding),
            0
        ) as taken_before
    from unnest(
        :positions::int[], :queues::text[], :agents::text[], :turns_max::int[], :leases::int[],
        :code_versions::text[], :requests::uuid[], :answer_bytes::bigint[], :ages_max::double precision[]
    ) as t (position, queue, agent, turns_max, lease_seconds, code_version, request, answer_bytes_max, age_seconds_max)
),

wanted as (
    select queue, sum(turns_max)::int as turns, min(age_seconds_max) as age_seconds_max
    from request
    where not exists (
        select from sink.pause as p where p.kind = 'all' or (p.kind = 'queue' and p.name = request.queue)
    )
    group by queue
),

rung (queue, turns, priority) as (
    select
        wanted.queue,
        wanted.turns,
        (
            select t.priority from sink.turn as t
            where t.queue = wanted.queue and t.state = 'queued'
            order by t.priority desc limit 1
        )
    from wanted
    union all
    select
        rung.queue,
        rung.turns,
        (
            select t.priority from sink.turn as t
            where t.queue = rung.queue and t.state = 'queued' and t.priority < rung.priority
            order by t.priority desc limit 1
        )
    from rung
    where rung.priority is not null
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
                and t.due_at <= sink.now()
            order by t.due_at, t.id
            limit rung.turns
            for update skip locked
        ) as picked
        where rung.queue = wanted.queue and rung.priority is not null
        limit wanted.turns -- noqa: AM09
    ) as found
),

ranked as (
    select *, row_number() over (partition by queue order by priority desc, due_at, id) as nth
    from candidate
    where not is_too_old
),

share as (
    select
        ranked.id,
        ranked.nth,
        request.*,
        sum(ranked.input_bytes) over (partition by request.position order by ranked.nth) as bytes_so_far,
        ranked.nth - request.taken_before as nth_of_request
    from ranked
    inner join request
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
    position, id, attempt, token, lease_seconds::double precision as expires_in_seconds, conversation, nth,
    case when attempt = 1 then extract(epoch from sink.now() - came_at)::double precision end as waited_seconds
from claimed
union all
select null, id, null, null, null, null, null, null
from candidate
where is_too_old
order by position, nth;

-- name: read_inbound
-- What the claimed turns are about: a statement of its own, so that it sees all that was committed before the claim
-- locked its turns.
select id, turn, source, received_at, content_type, headers, metadata, body, strict_json, view
from sink.inbound
where turn = any(:turns)
order by turn, position;

-- name: read_claimed
-- What these requests gave and still hold.
select
    a.request,
    t.id,
    t.attempt,
    t.token,
    t.conversation,
    greatest(extract(epoch from t.lease_expires_at - sink.now()), 0)::double precision as expires_in_seconds
from sink.attempt as a
inner join sink.turn as t on t.id = a.turn and t.token = a.token
where a.request = any(:requests)
order by t.priority desc, t.due_at, t.id;
