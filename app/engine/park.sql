-- name: park_turns
-- Turns whose token holds leave processing to wait, unless they have parked as often as they may, or nobody says how
-- long. The attempt is given back. Their lanes stay theirs: nobody is promoted, and no lane is locked.
with item as (
    select * from unnest(
        :turns::uuid[], :tokens::uuid[], :names::text[], :seconds::double precision[], :payload_hashes::text[],
        :notes::text[], :parks_max::int[]
    ) as t (turn, token, name, seconds, payload_hash, note, parks_max)
),

held as materialized (
    select t.id, t.token
    from item
    inner join sink.turn as t on t.id = item.turn and t.token = item.token
    order by t.id
    for no key update of t
),

parked as (
    update sink.turn as t
    set
        state = 'parked',
        token = null,
        lease_seconds = null,
        lease_expires_at = null,
        -- Seconds, and no calendar: no change of a clock moves it.
        deadline_at = sink.now() + make_interval(secs => item.seconds),
        attempts_used = t.attempts_used - 1,
        parks = t.parks + 1
    from held, item
    where
        t.id = held.id and t.token = held.token
        and item.turn = t.id and item.token = t.token and t.parks < item.parks_max and item.seconds is not null
    returning t.id, item.token, t.attempt, t.deadline_at, item.name, item.payload_hash, item.note
),

ended as (
    update sink.attempt as a
    set ended = 'parked', ended_at = sink.now()
    from parked
    where a.turn = parked.id and a.number = parked.attempt
),

asked as (
    insert into sink.wait (turn, attempt, name, note, payload_hash, asked_at, deadline_at)
    select id, attempt, name, note, payload_hash, sink.now(), deadline_at from parked
)

select id, token, deadline_at from parked;

-- name: meet_signals
-- What these turns were told before they parked, in a statement of its own: its snapshot is younger than the locks on
-- them, and so sees every signal that came before. One that does not answer what a person is asked is dropped, so that
-- the person's can come. Where one is asked that has not answered yet, somebody is told.
with parked as materialized (
    select t.id, t.queue, w.attempt, w.name, w.payload_hash
    from sink.turn as t
    inner join sink.wait as w on w.turn = t.id and w.attempt = t.attempt
    where t.id = any(:turns)
),

kept as materialized (
    select
        parked.id, parked.name, s.number, s.sent_with,
        parked.payload_hash is null
        or (s.is_decision and s.payload_hash is not distinct from parked.payload_hash) as answers
    from parked
    inner join sink.signal as s on s.turn = parked.id and s.name = parked.name and s.dropped_at is null
),

dropped as (
    update sink.signal as s
    set dropped_at = sink.now()
    from kept
    where s.turn = kept.id and s.name = kept.name and s.number = kept.number and not kept.answers
),

noted as (
    insert into sink.event (turn, verb, from_state, to_state, attempt, detail)
    select
        parked.id, 'park', 'processing', 'parked', parked.attempt,
        jsonb_strip_nulls(
            jsonb_build_object(
                'name', parked.name,
                'payload_hash', parked.payload_hash,
                'dropped', case when not kept.answers then kept.sent_with end
            )
        )
    from parked
    left join kept using (id)
),

telling as (
    insert into sink.notice (turn, queue, kind, reason, noted_at)
    select parked.id, parked.queue, 'wait', 'parked', sink.now()
    from parked
    left join kept using (id)
    where parked.payload_hash is not null and kept.answers is not true
)

select id, number from kept where answers;

-- name: find_waits
-- What the attempts of these tokens parked for.
select a.turn, a.token, w.name, w.payload_hash, w.deadline_at, w.ended
from unnest(:turns::uuid[], :tokens::uuid[]) as item (turn, token)
inner join sink.attempt as a on a.turn = item.turn and a.token = item.token
inner join sink.wait as w on w.turn = a.turn and w.attempt = a.number;
