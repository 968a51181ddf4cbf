-- name: find_due
-- Scheduled turns whose time has come, oldest first.
select id, queue, conversation
from sink.turn
where state = 'scheduled' and due_at <= sink.now()
order by due_at, id
limit :turns_max;

-- name: find_held
-- Turns that a source held up which is no longer paused, in the order in which they were accepted: ids are made by the
-- clocks of replicas. Sources are walked one by one, so that any number held by one that is still paused costs nothing.
-- One with a time of its own to come has that.
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

select found.id, found.queue, coalesce(found.ages_from > sink.now(), false) as has_time
from holding
cross join lateral (
    select t.id, t.queue, t.created_at, t.ages_from from sink.turn as t
    where t.held_source is not null and t.held_source = holding.source and t.state = 'scheduled'
    order by t.held_source, t.created_at, t.id limit :turns_max
) as found
where not exists (select from sink.pause as p where p.kind = 'source' and p.name = holding.source)
order by found.created_at, found.id
limit :turns_max;

-- name: keep_times
-- Turns that nothing holds up any more wait for the times they were given.
with chosen as materialized (
    select id, held_source, ages_from from sink.turn
    where id = any(:turns)
    order by id
    for no key update
)

update sink.turn as t
set due_at = chosen.ages_from, ages_from = null, held_source = null
from chosen
where t.id = chosen.id and chosen.held_source is not null and t.state = 'scheduled'
returning t.id;

-- name: enter_lanes
-- Give each lane that these turns enter as many places as it needs, under its lock.
insert into sink.lane as l (queue, conversation, tail)
select queue, conversation, count(*)
from sink.turn
where id = any(:turns) and conversation is not null
group by queue, conversation
order by queue collate "C", conversation collate "C"
on conflict (queue, conversation) do update set tail = l.tail + excluded.tail;

-- name: make_due
-- Scheduled turns become queued, or wait behind the holder of their lane. Those of one lane keep the order of their
-- times, at one time that in which they were accepted. The caller has locked the lanes in an earlier statement.
with chosen as materialized (
    select id from sink.turn
    where id = any(:turns) and state = 'scheduled'
    order by id
    for no key update
),

entering as (
    select
        t.id, t.queue, t.conversation, l.tail, l.holder,
        row_number() over lane as nth,
        first_value(t.id) over lane as head,
        count(*) over (partition by t.queue, t.conversation) as turns
    from chosen
    inner join sink.turn as t using (id)
    left join sink.lane as l on l.queue = t.queue and l.conversation = t.conversation
    window lane as (partition by t.queue, t.conversation order by t.due_at, t.created_at, t.id)
),

lane as (
    update sink.lane as l
    set holder = e.head
    from
        (select distinct queue, conversation, head from entering where conversation is not null and holder is null) as e
    where l.queue = e.queue and l.conversation = e.conversation
),

entered as (
    update sink.turn as t
    set
        state = case
            when e.conversation is null or (e.holder is null and e.nth = 1) then 'queued' else 'waiting'
        end,
        lane_seq = e.tail - e.turns + e.nth,
        -- What was held up was due at no time: it is from now on.
        due_at = least(t.due_at, sink.now()),
        ages_from = least(t.due_at, sink.now()),
        held_source = null
    from entering as e
    where t.id = e.id and t.state = 'scheduled'
    returning t.id, t.queue, t.state
),

noted as (
    insert into sink.event (turn, verb, from_state, to_state)
    select id, 'due', 'scheduled', state from entered
)

select id, queue, state from entered;
