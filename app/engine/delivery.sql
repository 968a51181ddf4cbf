-- name: lock_for_messages
-- Lock the turns of these messages, then the delivery lanes in which something may follow from them, each in order:
-- their own, and of a strict set those of all that stand behind them. Comes before any lock on a message.
with family as materialized (
    select turn, seal, position, strict, queue, conversation, destination from sink.outbox where id = any(:messages)
),

turns as materialized (
    select t.id from sink.turn as t
    where t.id = any(array(select turn from family))
    order by t.id
    for no key update
),

lane as materialized (
    select queue, conversation, destination from family where conversation is not null
    union
    select o.queue, o.conversation, o.destination
    from family as f
    inner join sink.outbox as o on o.turn = f.turn and o.seal = f.seal and o.position > f.position
    where f.strict and o.conversation is not null
    order by queue, conversation, destination
)

-- One after the other, each through the index: a lane at a time is locked, in their order.
select held.queue
from lane
cross join lateral (
    select l.queue from sink.delivery_lane as l
    where l.queue = lane.queue and l.conversation = lane.conversation and l.destination = lane.destination
    for no key update
) as held
-- Counting the turns is what locks them first.
where (select count(*) from turns) >= 0;

-- name: leave_lanes
-- Dead and unknown messages stop the later ones of their set in their lane, of a strict set all later ones, and no
-- other set: all of them leave the lanes that they share with other sets, for good.
update sink.outbox as o
set left_lane = true
from sink.outbox as stuck
where
    stuck.id = any(:stuck)
    and o.turn = stuck.turn and o.seal = stuck.seal and o.position >= stuck.position
    and (
        o.strict
        or (o.destination = stuck.destination and o.conversation is not distinct from stuck.conversation)
    )
    and not o.left_lane
returning o.id;

-- name: move_on
-- What waited for messages that ended or left waits for the next open one before it: in its set, then in the lane that
-- it shares with other sets. Behind nobody its own pause begins.
with follower as (
    select
        f.id, f.turn, f.seal, f.position, f.strict, f.queue, f.conversation, f.destination, f.place, f.left_lane,
        f.blocked_by
    from sink.outbox as f
    where f.blocked_by = any(:gone)
),

next as materialized (
    select
        f.id,
        coalesce(
            (
                select o.id from sink.outbox as o
                where
                    o.turn = f.turn and o.seal = f.seal and o.position < f.position
                    and (
                        f.strict
                        or (o.destination = f.destination and o.conversation is not distinct from f.conversation)
                    )
                    and o.state not in ('delivered', 'cancelled')
                order by o.position desc limit 1
            ),
            (
                select o.id from sink.outbox as o
                where
                    not f.left_lane
                    and o.queue = f.queue and o.conversation = f.conversation and o.destination = f.destination
                    and o.place < f.place
                    and o.state in ('pending', 'sending') and not o.left_lane and o.conversation is not null
                order by o.place desc limit 1
            )
        ) as blocker
    from follower as f
)

update sink.outbox as o
set
    blocked_by = next.blocker,
    due_at = case
        when next.blocker is null
            then sink.now() + make_interval(secs => greatest(o.delay_seconds, o.pace_seconds))
        else o.due_at
    end,
    due_since = case
        when next.blocker is null
            then sink.now() + make_interval(secs => greatest(o.delay_seconds, o.pace_seconds))
        else o.due_since
    end
from next
where o.id = next.id and o.state = 'pending' and o.blocked_by is distinct from next.blocker
returning o.id;

-- name: settle_turns
-- A turn is replied when every message of its set is delivered, undelivered when nothing of the set can move by itself,
-- and sealed otherwise. Its row is locked and this snapshot is younger than the lock, so two last confirmations cannot
-- miss each other. A set without messages has nothing that is not delivered.
with tally as (
    select
        t.id as turn,
        t.seal,
        t.state as from_state,
        coalesce(bool_and(o.state = 'delivered'), true) as all_delivered,
        coalesce(bool_or(o.state = 'sending'), false) as any_sending,
        coalesce(bool_or(o.state = 'pending'), false) as any_pending,
        coalesce(bool_or(o.state in ('dead', 'unknown')), false) as any_stuck
    from sink.turn as t
    left join sink.outbox as o on o.turn = t.id and o.seal = t.seal
    where t.id = any(:turns) and t.state in ('sealed', 'undelivered')
    group by t.id
),

decided as (
    select
        turn as id,
        from_state,
        case
            when all_delivered then 'replied'
            when any_sending or (any_pending and not any_stuck) then 'sealed'
            when any_pending and exists (
                select from sink.outbox as o
                where
                    o.turn = tally.turn and o.seal = tally.seal and o.state = 'pending'
                    and not exists (
                        -- Through its set, and not through everything that is dead or unknown.
                        select from (
                            select p.state, p.destination, p.conversation from sink.outbox as p
                            where p.turn = o.turn and p.seal = o.seal and p.position < o.position offset 0 -- noqa: AM09
                        ) as before
                        where
                            before.state in ('dead', 'unknown')
                            and (
                                o.strict
                                or (
                                    before.destination = o.destination
                                    and before.conversation is not distinct from o.conversation
                                )
                            )
                    )
            ) then 'sealed'
            else 'undelivered'
        end as to_state
    from tally
),

moved as (
    update sink.turn as t
    set state = decided.to_state
    from decided
    where t.id = decided.id and t.state in ('sealed', 'undelivered') and t.state <> decided.to_state
    returning t.id, t.queue, decided.from_state, t.state, t.attempt, coalesce(t.ages_from, t.created_at) as came_at
),

noted as (
    insert into sink.event (turn, verb, from_state, to_state)
    select id, 'settle', from_state, state from moved
)

select
    moved.id as turn,
    moved.queue,
    moved.state,
    extract(epoch from sink.now() - moved.came_at)::double precision as age_seconds,
    extract(epoch from sink.now() - sealed.ended_at)::double precision as sealed_seconds
from moved
left join lateral (
    select a.ended_at from sink.attempt as a where a.turn = moved.id and a.number = moved.attempt offset 0 -- noqa: AM09
) as sealed on true;
