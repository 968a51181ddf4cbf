-- name: add_holds
-- Sealed sets that wait for a person, and that somebody is to be told of each.
with item as (
    select * from unnest(
        :turns::uuid[], :seals::int[], :attempts::int[], :payload_hashes::bytea[], :demanded_by::text[],
        :strict::boolean[], :notes::text[], :on_deadlines::text[]
    ) as t (turn, seal, attempt, payload_hash, demanded_by, is_strict, note, on_deadline)
),

telling as (
    insert into sink.notice (turn, queue, kind, reason, noted_at)
    select item.turn, t.queue, 'hold', 'held', sink.now()
    from item
    inner join sink.turn as t on t.id = item.turn
    order by item.turn
)

insert into sink.hold (
    turn, seal, attempt, payload_hash, demanded_by, strict, note, on_deadline, held_at, deadline_at
)
select
    item.turn, item.seal, item.attempt, item.payload_hash, item.demanded_by, item.is_strict, item.note,
    item.on_deadline, sink.now(), t.deadline_at
from item
inner join sink.turn as t on t.id = item.turn
returning
    turn, seal, payload_hash, demanded_by, note, on_deadline, held_at, deadline_at, reminders, decision, decided_at,
    decided_by, comment, new_hash;

-- name: read_holds
-- What was held of these turns, and what was decided about it, first to last.
select
    turn, seal, payload_hash, demanded_by, note, on_deadline, held_at, deadline_at, reminders, decision, decided_at,
    decided_by, comment, new_hash, attempt, strict, request_hash
from sink.hold
where turn = any(:turns)
order by turn, seal;
