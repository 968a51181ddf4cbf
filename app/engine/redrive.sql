-- name: redrive_turns
-- Failed turns get a new allowance and go back to their old places in their lanes: queued where the lane is free and
-- nobody of this call stands before, else waiting. The caller has locked the lanes and the turns in earlier statements.
with returning_turn as (
    select
        t.id, t.queue, t.conversation, l.holder,
        row_number() over lane as nth,
        first_value(t.id) over lane as head
    from sink.turn as t
    left join sink.lane as l on l.queue = t.queue and l.conversation = t.conversation
    where t.id = any(:turns) and t.state = 'failed'
    window lane as (partition by t.queue, t.conversation order by t.lane_seq)
),

lane as (
    update sink.lane as l
    set holder = r.head
    from (
        select distinct queue, conversation, head from returning_turn where conversation is not null and holder is null
    ) as r
    where l.queue = r.queue and l.conversation = r.conversation
),

redriven as (
    update sink.turn as t
    set
        state = case
            when r.conversation is null or (r.holder is null and r.nth = 1) then 'queued' else 'waiting'
        end,
        reason = null,
        attempts_used = 0,
        releases = 0,
        due_at = sink.now(),
        ages_from = sink.now()
    from returning_turn as r
    where t.id = r.id and t.state = 'failed'
    returning t.id, t.state
),

noted as (
    insert into sink.event (turn, verb, from_state, to_state, detail)
    select id, 'redrive', 'failed', state, jsonb_build_object('by', :by::text) from redriven
)

select id, state from redriven;

-- name: find_stuck
-- The dead and unknown messages of these turns' live seals. They stay so: whoever moves one locks its turn before.
with named as materialized (
    select id, seal, state from sink.turn where id = any(:turns)
)

-- Through their turns, and not through everything that is dead or unknown.
select o.id
from named
cross join lateral (
    select m.id, m.state from sink.outbox as m where m.turn = named.id and m.seal = named.seal offset 0 -- noqa: AM09
) as o
where named.state = 'undelivered' and o.state in ('dead', 'unknown');

-- name: reseal_turns
-- Turns whose stuck messages are about to be sent again are on their way again.
with stuck as materialized (
    select distinct turn from sink.outbox where id = any(:messages)
),

resealed as (
    update sink.turn as t
    set state = 'sealed'
    from stuck
    where t.id = stuck.turn and t.state = 'undelivered'
    returning t.id
),

noted as (
    insert into sink.event (turn, verb, from_state, to_state, detail)
    select id, 'redrive', 'undelivered', 'sealed', jsonb_build_object('by', :by::text) from resealed
)

select id from resealed;

-- name: redrive_messages
-- Dead and unknown messages get a new allowance, under their old keys, behind whatever of their set is still open. They
-- have left the lane that they shared with other sets, for good.
with held as materialized (
    select id, turn, state from sink.outbox
    where id = any(:messages)
    order by id
    for no key update
),

placed as (
    select
        o.id,
        held.state as from_state,
        (
            select p.id from sink.outbox as p
            where
                p.turn = o.turn and p.seal = o.seal and p.position < o.position
                and (
                    o.strict
                    or (p.destination = o.destination and p.conversation is not distinct from o.conversation)
                )
                and p.state not in ('delivered', 'cancelled')
            order by p.position desc limit 1
        ) as blocker
    from held
    inner join sink.outbox as o using (id)
    where o.state in ('dead', 'unknown')
),

redriven as (
    update sink.outbox as o
    set
        state = 'pending',
        reason = null,
        blocked_by = placed.blocker,
        due_at = sink.now(),
        due_since = case when placed.blocker is null then sink.now() end,
        attempts_used = 0
    from placed
    where o.id = placed.id and o.state in ('dead', 'unknown')
    returning o.id, o.turn, o.state, placed.from_state
),

noted as (
    insert into sink.event (turn, message, verb, from_state, to_state, detail)
    select turn, id, 'redrive', from_state, 'pending', jsonb_build_object('by', :by::text) from redriven
)

select
    held.id,
    redriven.turn,
    coalesce(redriven.state, held.state) as state,
    (
        select true from sink.event as e
        where e.turn = held.turn and e.message = held.id and e.verb = 'redrive'
        limit 1 -- noqa: AM09
    ) is not null as was_redriven
from held
left join redriven using (id);

-- name: find_redriven_turns
-- Which of these turns somebody has redriven, ever.
select distinct turn from sink.event
where turn = any(:turns) and message is null and verb = 'redrive';
