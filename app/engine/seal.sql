-- name: hold_turns
-- Lock what these seals need, in order: the lanes of the turns whose tokens hold, those turns, and the delivery lanes
-- that their messages enter, where each gets as many places as it needs. The next statement is younger than all of
-- these locks: it sees who waits for a lane, and who is before.
with item as (
    select * from unnest(:turns::uuid[], :tokens::uuid[]) as t (turn, token)
),

lane as materialized (
    select l.queue, l.conversation
    from sink.lane as l
    where (l.queue, l.conversation) in (
        select t.queue, t.conversation
        from item
        inner join sink.turn as t on t.id = item.turn and t.token = item.token
        where t.conversation is not null
    )
    order by l.queue collate "C", l.conversation collate "C"
    for no key update of l
),

held as materialized (
    select
        t.id, t.token, t.queue, t.conversation, t.attempt, t.seal,
        coalesce(t.ages_from, t.created_at) as came_at
    from item
    inner join sink.turn as t on t.id = item.turn and t.token = item.token
    -- No turn before the last lane.
    where (select count(*) from lane) >= 0
    order by t.id
    for no key update of t
),

entering as (
    select held.queue, entered.conversation, entered.destination, count(*) as messages
    from held
    inner join
        unnest(:entering_turns::uuid[], :entering_conversations::text[], :entering_destinations::text[])
            as entered (turn, conversation, destination)
        on entered.turn = held.id
    group by 1, 2, 3
    order by held.queue collate "C", entered.conversation collate "C", entered.destination collate "C"
),

delivery_lane as (
    insert into sink.delivery_lane as l (queue, conversation, destination, tail)
    select * from entering
    on conflict (queue, conversation, destination) do update set tail = l.tail + excluded.tail
    returning l.queue, l.conversation, l.destination, l.tail
)

select
    id, token, queue, conversation, null as destination, null as tail, attempt, seal,
    extract(epoch from sink.now() - came_at)::double precision as age_seconds
from held
union all
select null, null, queue, conversation, destination, tail, null, null, null
from delivery_lane;
