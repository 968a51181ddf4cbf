"""A long past: finished turns with delivered messages, loaded at once, so that plans can be looked at behind it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.database import Admin

MESSAGES_A_TURN = 3
CONVERSATIONS = 10_000

LOAD = (
    """
    create temporary table past as
    select
        n, gen_random_uuid() as turn, gen_random_uuid() as inbound, gen_random_uuid() as token,
        'p' || n % {conversations} as conversation, sink.now() - make_interval(secs => n) as at
    from generate_series(1, {turns}) as n
    """,
    """
    create temporary table said as
    select past.*, gen_random_uuid() as message, m as position, gen_random_uuid() as attempt_id
    from past cross join generate_series(0, {messages} - 1) as m
    """,
    """
    insert into sink.idempotency_key
    select 'queue/default', 'past-' || n, sha256(n::text::bytea), inbound, turn, at, at + interval '30 days' from past
    """,
    """
    insert into sink.inbound (
        id, turn, queue, source, conversation, received_at, content_type, headers, body, strict_json
    )
    select inbound, turn, 'default', 'api', conversation, at, 'application/json', '{{}}', '{{}}', true from past
    """,
    """
    insert into sink.lane select 'default', conversation, count(*), null from past group by conversation
    """,
    """
    insert into sink.delivery_lane
    select 'default', conversation, 'crm', count(*) from said group by conversation
    """,
    """
    insert into sink.turn (
        id, queue, conversation, lane_seq, priority, state, reason, created_at, due_at, attempt, attempts_used,
        seal, payload_hash, input_bytes
    )
    select
        turn, 'default', conversation, 1 + n / {conversations}, 0, case n % 10 when 0 then 'failed' else 'replied' end,
        case n % 10 when 0 then 'why' end, at, at, 1, 1,
        case n % 10 when 0 then 0 else 1 end, case n % 10 when 0 then null else sha256('x') end, 2
    from past
    """,
    """
    insert into sink.attempt (turn, number, token, agent, claimed_at, ended_at, ended, request_hash)
    select turn, 1, token, 'agent', at, at, 'sealed', sha256('x') from past
    """,
    """
    insert into sink.outbox (
        id, turn, seal, position, queue, conversation, destination, place, state, due_at, due_since,
        attempts, attempts_used, delivered_at
    )
    select
        message, turn, 1, position, 'default', conversation, 'crm',
        1 + position + {messages} * (n / {conversations}), 'delivered', at, at, 1, 1, at
    from said
    """,
    """
    insert into sink.outbox_payload (message, key, headers, content_type, body, hash, sealed_at)
    select message, message::text, '{{}}', 'text/plain', 'hello', sha256('x'), at from said
    """,
    """
    insert into sink.event (turn, verb, from_state, to_state, at)
    select turn, 'claim', 'queued', 'processing', at from past
    """,
    """
    insert into sink.event (turn, message, verb, from_state, to_state, attempt_id, at)
    select turn, message, 'take', 'pending', 'sending', attempt_id, at from said
    """,
    "drop table past, said",
)


async def load_past(admin: "Admin", *, turns: int) -> None:
    """Put `turns` finished turns with three delivered messages each behind everything."""
    for statement in LOAD:
        await admin.execute(
            statement.format(turns=turns, messages=MESSAGES_A_TURN, conversations=CONVERSATIONS)
        )
    await admin.execute("vacuum (analyze)")
