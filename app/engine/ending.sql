-- name: read_held_turns
-- Turns as they stand under their locks, and whether what they wait for is over.
select
    id, queue, conversation, state, seal, payload_hash, revisions, coalesce(deadline_at <= sink.now(), false) as is_over
from sink.turn
where id = any(:turns);

-- name: end_turns
-- Held turns go on to be delivered, or end. The caller has locked them in an earlier statement.
with item as (
    select * from unnest(
        :turns::uuid[], :from_states::text[], :to_states::text[], :verbs::text[], :reasons::text[], :seals::int[],
        :payload_hashes::bytea[], :details::text[]
    ) as t (turn, from_state, to_state, verb, reason, seal, payload_hash, detail)
),

ended as (
    update sink.turn as t
    set
        state = item.to_state,
        reason = item.reason,
        seal = item.seal,
        payload_hash = item.payload_hash,
        deadline_at = null
    from item
    where t.id = item.turn and t.state in ('held', 'escalated') and t.state = item.from_state
    returning t.id, t.queue, item.verb, item.from_state, t.state, t.attempt, item.reason, item.detail
),

-- Nobody has decided in time: somebody is told, whatever was configured to happen then.
telling as (
    insert into sink.notice (turn, queue, kind, reason, noted_at)
    select id, queue, 'escalation', 'hold_expired', sink.now() from ended where verb = 'expire'
)

insert into sink.event (turn, verb, from_state, to_state, attempt, reason, detail)
select id, verb, from_state, state, attempt, reason, detail::jsonb from ended;

-- name: send_back
-- Held turns are to be run once more, from their old places in their lanes: queued where they still hold the lane or it
-- is free and nobody of this call stands before, else waiting. The attempt that sealed is given back, and their input
-- ages from now. The caller has locked the lanes and the turns in earlier statements.
with item as (
    select * from unnest(:turns::uuid[], :from_states::text[], :details::text[]) as t (turn, from_state, detail)
),

returning_turn as (
    select
        t.id, t.queue, t.conversation, l.holder,
        row_number() over lane as nth,
        first_value(t.id) over lane as head
    from item
    inner join sink.turn as t on t.id = item.turn
    left join sink.lane as l on l.queue = t.queue and l.conversation = t.conversation
    where t.state in ('held', 'escalated')
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

sent_back as (
    update sink.turn as t
    set
        state = case
            when r.conversation is null or r.holder = r.id or (r.holder is null and r.nth = 1) then 'queued'
            else 'waiting'
        end,
        payload_hash = null,
        deadline_at = null,
        attempts_used = t.attempts_used - 1,
        revisions = t.revisions + 1,
        -- The next claim tells of all of it.
        said_bytes = coalesce(
            (
                select sum(octet_length(said.body))
                from (
                    select p.body
                    from sink.outbox as o
                    inner join sink.outbox_payload as p on p.message = o.id
                    where o.turn = t.id and o.seal = t.seal
                    union all
                    select f.body
                    from sink.follow_up as f
                    where f.turn = t.id and f.seal = t.seal
                ) as said
            ),
            t.said_bytes
        ),
        due_at = sink.now(),
        ages_from = sink.now()
    from returning_turn as r, item
    where t.id = r.id and item.turn = t.id and t.state in ('held', 'escalated') and t.state = item.from_state
    returning t.id, item.from_state, t.state, t.attempt, item.detail
)

insert into sink.event (turn, verb, from_state, to_state, attempt, detail)
select id, 'revise', from_state, state, attempt, detail::jsonb from sent_back;

-- name: decide_holds
-- What was decided about these sets: the first decision stays.
update sink.hold as h
set
    decision = item.decision,
    decided_at = sink.now(),
    decided_by = item.decided_by,
    decided_with = item.decided_with,
    comment = item.comment,
    request_hash = item.request_hash,
    new_hash = item.new_hash
from
    unnest(
        :turns::uuid[], :seals::int[], :decisions::text[], :decided_by::text[], :decided_with::text[],
        :comments::text[], :request_hashes::bytea[], :new_hashes::bytea[]
    ) as item (turn, seal, decision, decided_by, decided_with, comment, request_hash, new_hash)
where h.turn = item.turn and h.seal = item.seal and h.decision is null;

-- name: void_sets
-- What these sets say is not sent, and what they ask for later does not come to be, unless it is carried along.
with item as (
    select * from unnest(
        :turns::uuid[], :seals::int[], :verbs::text[], :reasons::text[], :details::text[], :carried::boolean[]
    ) as t (turn, seal, verb, reason, detail, is_carried)
),

dropped as (
    update sink.follow_up as f
    set state = 'cancelled'
    from item
    where f.turn = item.turn and f.seal = item.seal and f.state = 'held' and not item.is_carried
),

void as (
    update sink.outbox as o
    set state = 'cancelled', reason = item.reason
    from item
    where o.turn = item.turn and o.seal = item.seal and o.state = 'held'
    returning o.turn, o.id, o.position, item.verb, item.reason, item.detail
)

insert into sink.event (turn, message, verb, from_state, to_state, reason, detail)
select turn, id, verb, 'held', 'cancelled', reason, detail::jsonb from void
order by turn, position;
