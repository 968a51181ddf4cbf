-- name: find_due
-- Scheduled turns whose time has come, oldest first.
select id, queue, conversation
from sink.turn
where state = 'scheduled' and due_at <= sink.now()
order by due_at, id
limit :turns_max;

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
-- times. The caller has locked the lanes in an earlier statement.
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
    window lane as (partition by t.queue, t.conversation order by t.due_at, t.id)
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
        lane_seq = e.tail - e.turns + e.nth
    from entering as e
    where t.id = e.id and t.state = 'scheduled'
    returning t.id, t.queue, t.state
),

noted as (
    insert into sink.event (turn, verb, from_state, to_state)
    select id, 'due', 'scheduled', state from entered
)

select id, queue, state from entered;
