-- name: find_slots
-- What these turns were told under these names, and whether they wait for it. It stands behind the locks on the turns,
-- so that it sees every park and every signal that came before.
select
    item.turn,
    item.name,
    t.state,
    w.turn is not null as is_awaited,
    w.payload_hash as asked_hash,
    s.request_hash,
    s.is_decision,
    s.sent_by,
    s.sent_with,
    s.sent_at,
    (
        select coalesce(max(before.number), 0) + 1 from sink.signal as before
        where before.turn = item.turn and before.name = item.name
    ) as number,
    (select count(*) from sink.signal as other where other.turn = item.turn) as told
from unnest(:turns::uuid[], :names::text[]) as item (turn, name)
inner join sink.turn as t on t.id = item.turn
left join sink.wait as w
    on w.turn = t.id and w.attempt = t.attempt and w.ended is null and w.name = item.name and t.state = 'parked'
left join sink.signal as s on s.turn = item.turn and s.name = item.name and s.dropped_at is null;

-- name: add_signals
-- Keep these signals. Their callers have locked the turns.
insert into sink.signal (
    turn, name, number, content_type, body, strict_json, payload_hash, is_decision, sent_by, sent_with, request_hash,
    sent_at
)
select
    one.turn, one.name, one.number, one.content_type, one.body, one.strict_json, one.payload_hash, one.is_decision,
    one.sent_by, one.sent_with, one.request_hash, sink.now()
from unnest(
    :turns::uuid[], :names::text[], :numbers::int[], :content_types::text[], :bodies::bytea[],
    :strict_json::boolean[], :payload_hashes::text[], :may_decide::boolean[], :sent_by::text[], :sent_with::text[],
    :request_hashes::bytea[]
) as one (
    turn, name, number, content_type, body,
    strict_json, payload_hash, is_decision, sent_by, sent_with,
    request_hash
);
