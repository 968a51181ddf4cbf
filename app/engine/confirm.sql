-- name: confirm_messages
-- Each of these attempts has delivered, and all that follows from it: who waited for them moves on, their turns are
-- settled, and fewer are being sent at their destinations. Its caller has locked the turns and the delivery lanes in an
-- earlier statement, so that this snapshot is younger than those locks; what it moves itself is left out of what it
-- reads. It gives a row for each that still held, one for each turn that moved, and one for each destination that
-- counted them: none where a breaker is not closed, since more is to be decided then than this statement does.
with settled as (
    update sink.outbox as o
    set
        state = 'delivered',
        reason = told.reason,
        attempt_id = null,
        cancel_asked = false,
        lease_expires_at = null,
        delivered_at = sink.now(),
        receipt = told.receipt
    from unnest(
        :messages::uuid[], :attempt_ids::uuid[], :reasons::text[], :receipts::text[], :statuses::int[],
        :excerpts::text[]
    ) as told (message, attempt_id, reason, receipt, status, excerpt)
    where o.id = told.message and o.attempt_id = told.attempt_id
    returning
        o.id, o.turn, o.destination, o.attempts,
        told.attempt_id, told.reason, told.status, told.excerpt, told.receipt
),

noted as (
    insert into sink.event (turn, message, verb, from_state, to_state, attempt, attempt_id, reason, detail)
    select
        turn, id, 'settle', 'sending', 'delivered', attempts, attempt_id, reason,
        nullif(jsonb_strip_nulls(jsonb_build_object('status', status, 'answer', excerpt, 'receipt', receipt)), '{}')
    from settled
    returning id
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
                    and o.id not in (select s.id from settled as s)
                order by o.position desc limit 1
            ),
            (
                select o.id from sink.outbox as o
                where
                    not f.left_lane
                    and o.queue = f.queue and o.conversation = f.conversation and o.destination = f.destination
                    and o.place < f.place
                    and o.state in ('pending', 'sending') and not o.left_lane and o.conversation is not null
                    and o.id not in (select s.id from settled as s)
                order by o.place desc limit 1
            )
        ) as blocker
    from settled
    cross join lateral (select * from sink.outbox as o where o.blocked_by = settled.id offset 0) as f -- noqa: AM09
),

moved_on as (
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
    returning o.id
),

tally as (
    select
        t.id as turn,
        t.seal,
        t.state as from_state,
        bool_and(o.state = 'delivered' or o.id in (select s.id from settled as s)) as all_delivered,
        bool_or(o.state = 'sending' and o.id not in (select s.id from settled as s)) as any_sending,
        bool_or(o.state = 'pending') as any_pending,
        bool_or(o.state in ('dead', 'unknown')) as any_stuck
    from sink.turn as t
    inner join sink.outbox as o on o.turn = t.id and o.seal = t.seal
    where t.id = any(array(select turn from settled)) and t.state in ('sealed', 'undelivered')
    group by t.id
),

decided as (
    select
        turn,
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
    where t.id = decided.turn and t.state in ('sealed', 'undelivered') and t.state <> decided.to_state
    returning t.id, t.queue, decided.from_state, t.state, t.attempt, coalesce(t.ages_from, t.created_at) as came_at
),

told_of as (
    insert into sink.event (turn, verb, from_state, to_state)
    select id, 'settle', from_state, state from moved
    -- Numbered behind what its messages came to.
    where (select count(*) from noted) >= 0
),

ended as (
    select destination, count(*)::int as messages
    from settled
    group by destination
),

-- The last lock: everybody who takes for these destinations waits from here to the commit. All of them or none, so that
-- whoever decides about one whose breaker is not closed locks them in their order.
held as materialized (
    select d.name, ended.messages
    from ended
    inner join sink.destination as d on d.name = ended.destination
    where
        d.breaker = 'closed'
        and (
            select bool_and(p.breaker = 'closed')
            from ended as e
            inner join sink.destination as p on p.name = e.destination
        )
        and (select count(*) from moved_on) >= 0
        and (select count(*) from moved) >= 0
    order by d.name
    for no key update of d
),

counted as (
    update sink.destination as d
    set sending = greatest(d.sending - held.messages, 0), failures = 0
    from held
    where d.name = held.name and d.breaker = 'closed'
    returning d.name
)

select id, attempt_id, turn, destination, null as queue, null as state, null::double precision as age_seconds,
    null::double precision as sealed_seconds
from settled
union all
select null, null, moved.id, null, moved.queue, moved.state,
    extract(epoch from sink.now() - moved.came_at)::double precision,
    extract(epoch from sink.now() - sealed.ended_at)::double precision
from moved
left join lateral (
    select a.ended_at from sink.attempt as a where a.turn = moved.id and a.number = moved.attempt offset 0 -- noqa: AM09
) as sealed on true
union all
select null, null, null, name, null, null, null, null from counted;
