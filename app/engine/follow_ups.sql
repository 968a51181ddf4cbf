-- name: record_follow_ups
-- What a seal asks for later. Nothing comes of it before its set is let go.
insert into sink.follow_up (
    turn, seal, position, state, child, inbound, queue, conversation, scope, key, content_type, body, strict_json,
    delay_seconds, not_before, hash
)
select turn, seal, position, 'held', child, inbound, queue, conversation, scope, key, content_type, body, strict_json,
    delay_seconds, not_before, hash
from unnest(
    :turns::uuid[], :seals::int[], :positions::int[], :children::uuid[], :inbounds::uuid[], :queues::text[],
    :conversations::text[], :scopes::text[], :keys::text[], :content_types::text[], :bodies::bytea[],
    :stricts::boolean[], :delays::double precision[], :not_befores::timestamptz[], :hashes::bytea[]
) as t (
    turn, seal, position, child, inbound, queue,
    conversation, scope, key, content_type, body,
    strict_json, delay_seconds, not_before, hash
);

-- name: accept_follow_ups
-- The follow-ups of these sets become inbound, each once for its key: its turn is scheduled, even for now, so that no
-- lane has to be locked. Keys are taken last of all, in sorted order, and no accept takes keys of these scopes. Who is
-- being accepted elsewhere under the same key is waited for.
with item as (
    select
        f.*,
        chosen.parent,
        t.priority,
        coalesce(t.root, t.id) as root,
        t.depth + 1 as depth,
        -- A time that has passed is now.
        greatest(coalesce(f.not_before, sink.now() + make_interval(secs => f.delay_seconds)), sink.now()) as due_at
    from unnest(:turns::uuid[], :seals::int[], :parents::text[]) as chosen (turn, seal, parent)
    inner join sink.follow_up as f on f.turn = chosen.turn and f.seal = chosen.seal
    inner join sink.turn as t on t.id = f.turn
    where f.state = 'held'
),

fresh_key as (
    insert into sink.idempotency_key (scope, key, body_hash, inbound, turn, created_at, expires_at)
    select scope, key, hash, inbound, child, sink.now(), sink.now() + make_interval(secs => :key_seconds)
    from item
    order by scope collate "C", key collate "C", turn, position
    on conflict do nothing
    returning turn as child, expires_at
),

fresh as (
    select item.*, fresh_key.expires_at
    from fresh_key
    inner join item using (child)
),

new_inbound as (
    insert into sink.inbound (
        id, turn, queue, source, conversation, received_at, key_expires_at, content_type, headers, body, strict_json
    )
    select
        inbound, child, queue, 'follow_up', conversation, sink.now(), expires_at, content_type, '{}'::jsonb, body,
        strict_json
    from fresh
),

new_turn as (
    insert into sink.turn (
        id, queue, conversation, priority, state, created_at, due_at, input_bytes, root, depth
    )
    select
        child, queue, conversation, priority, 'scheduled', sink.now(), due_at, octet_length(body), root, depth
    from fresh
),

noted as (
    insert into sink.event (turn, verb, to_state, detail)
    select child, 'accept', 'scheduled', jsonb_build_object('parent', parent)
    from fresh
    order by turn, position
),

accepted as (
    update sink.follow_up as f
    set state = 'accepted', body = null
    from fresh
    where f.turn = fresh.turn and f.seal = fresh.seal and f.position = fresh.position and f.state = 'held'
)

select item.turn, item.seal, fresh.child is not null as is_fresh
from item
left join fresh using (turn, seal, position);

-- name: point_follow_ups
-- Follow-ups whose keys were known stand for what those stand for. Needs a snapshot of its own: the twin that won may
-- have committed after the accept began.
update sink.follow_up as f
set state = 'accepted', body = null, child = known.turn, inbound = known.inbound, is_duplicate = true
from unnest(:turns::uuid[], :seals::int[]) as chosen (turn, seal), sink.idempotency_key as known
where
    f.turn = chosen.turn and f.seal = chosen.seal and f.state = 'held'
    and known.scope = f.scope and known.key = f.key;

-- name: find_sealed_follow_ups
-- What these sets asked for later, in its order, and how that stands.
select
    f.turn, f.seal, f.child, f.inbound, f.queue, f.key, f.is_duplicate,
    coalesce(c.state, g.state, f.state) as state
from (select distinct turn, seal from unnest(:turns::uuid[], :seals::int[]) as t (turn, seal)) as chosen
inner join sink.follow_up as f on f.turn = chosen.turn and f.seal = chosen.seal
left join sink.turn as c on f.state = 'accepted' and c.id = f.child
left join sink.tombstone as g on f.state = 'accepted' and g.id = f.child
order by f.turn, f.seal, f.position;

-- name: carry_follow_ups
-- The follow-ups of a set that a reviewer changed go along with the set that replaces it.
update sink.follow_up as f
set seal = chosen.seal + 1
from unnest(:turns::uuid[], :seals::int[]) as chosen (turn, seal)
where f.turn = chosen.turn and f.seal = chosen.seal and f.state = 'held';

-- name: find_depth
-- How far a turn is from the first of its chain, and what time it is.
select depth, sink.now() as now from sink.turn where id = :turn;
