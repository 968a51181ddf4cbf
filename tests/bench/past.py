"""Finished turns in any number, loaded by SQL in the order of time: what retention finds after months of work."""

from typing import TYPE_CHECKING

from tests.engine.crowds import ID

if TYPE_CHECKING:
    from tests.database import Admin

MESSAGES_A_TURN = 3
CHUNK_TURNS = 50_000
CONVERSATIONS = 20_000
# Turns of which a verb was called together.
BATCH_TURNS = 50
# The youngest ended so long ago.
DAYS_AGO = 100

CHUNK = (
    f"""
    create temporary table past as
    select n, at, {ID} as turn, {ID} as inbound, 'p' || n % {CONVERSATIONS} as conversation
    from (
        select n, sink.now() - interval '{DAYS_AGO} days' - make_interval(secs => {{turns}} - n) as at
        from generate_series({{first}}, {{last}}) as n
    ) as numbers
    """,
    f"""
    create temporary table said as
    select past.*, {ID} as message, m as position, gen_random_uuid() as attempt_id
    from past cross join generate_series(0, {MESSAGES_A_TURN} - 1) as m
    """,
    """
    insert into sink.idempotency_key
    select 'queue/default', 'past-' || n, sha256(n::text::bytea), inbound, turn, at, at + interval '30 days' from past
    """,
    """
    insert into sink.inbound (
        id, turn, queue, source, conversation, received_at, key_expires_at, content_type, headers, body, strict_json
    )
    select
        inbound, turn, 'default', 'api', conversation, at, at + interval '30 days', 'application/json', '{{}}',
        convert_to('{{"text":"' || repeat('x', 200) || '"}}', 'UTF8'), true
    from past
    """,
    """
    insert into sink.turn (
        id, queue, conversation, lane_seq, priority, state, created_at, due_at, attempt, attempts_used, seal,
        payload_hash, input_bytes
    )
    select turn, 'default', conversation, 1 + n, 0, 'replied', at, at, 1, 1, 1, sha256('x'), 211 from past
    """,
    """
    insert into sink.attempt (turn, number, token, agent, claimed_at, ended_at, ended, request_hash)
    select turn, 1, gen_random_uuid(), 'agent', at, at, 'sealed', sha256('x') from past
    """,
    """
    insert into sink.outbox (
        id, turn, seal, position, queue, conversation, destination, place, state, due_at, due_since, attempts,
        attempts_used, delivered_at
    )
    select
        message, turn, 1, position, 'default', conversation, 'crm', 1 + n, 'delivered', at, at, 1, 1, at
    from said
    """,
    """
    insert into sink.outbox_payload (message, key, headers, content_type, body, hash, sealed_at)
    select
        message, message::text, '{{}}', 'text/plain', convert_to(repeat('y', 200), 'UTF8'), sha256('x'), at
    from said
    """,
    # In the order in which batches of turns would have told them. Rows of one size after rows of another leave the same
    # gap on every page, into which each later accept would put an event: a page read and written for every one.
    f"""
    insert into sink.event (turn, message, verb, from_state, to_state, attempt, attempt_id, detail, at)
    select turn, message, verb, from_state, to_state, attempt, attempt_id, detail, at
    from (
        select
            n, step, 0 as position, turn, null::uuid as message, verb, from_state, to_state, attempt,
            null::uuid as attempt_id, detail, at
        from past
        cross join (
            values
                (1, 'accept', null, 'queued', null, null),
                (2, 'claim', 'queued', 'processing', 1, '{{{{"agent": "agent"}}}}'::jsonb),
                (
                    3, 'seal', 'processing', 'sealed', 1,
                    jsonb_build_object('payload_hash', 'sha256:' || repeat('0', 64))
                ),
                (7, 'settle', 'sealed', 'replied', null, null)
        ) as moves (step, verb, from_state, to_state, attempt, detail)
        union all
        select
            n, step, position, turn, message, verb, from_state, to_state, attempt,
            case when attempt > 0 then attempt_id end, detail, at
        from said
        cross join (
            values
                (4, 'seal', null, 'pending', null, null),
                (5, 'take', 'pending', 'sending', 1, null),
                (6, 'settle', 'sending', 'delivered', 1, '{{{{"status": 200, "answer": ""}}}}'::jsonb)
        ) as moves (step, verb, from_state, to_state, attempt, detail)
    ) as told
    order by (n - 1) / {BATCH_TURNS}, step, n, position
    """,
    "drop table past, said",
)

LANES = (
    f"""
    insert into sink.lane
    select 'default', 'p' || n, {{turns}} + 1, null from generate_series(0, {CONVERSATIONS} - 1) as n
    """,
    f"""
    insert into sink.delivery_lane
    select 'default', 'p' || n, 'crm', {{turns}} + 1 from generate_series(0, {CONVERSATIONS} - 1) as n
    """,
)


# Indexes are built behind the rows, which is several times faster where there are many. Those that stand for a
# constraint are its own.
_INDEXES = """
    select
        format('%s.%I', n.nspname, i.relname) as name, pg_get_indexdef(i.oid) as made,
        c.conname as constrains, pg_get_constraintdef(c.oid) as constraint_made, t.relname as table
    from pg_index as x
    inner join pg_class as i on i.oid = x.indexrelid
    inner join pg_class as t on t.oid = x.indrelid
    inner join pg_namespace as n on n.oid = t.relnamespace
    left join pg_constraint as c on c.conindid = i.oid
    where n.nspname = 'sink' and t.relname = any($1)
"""
_GROWING = ["turn", "inbound", "attempt", "outbox", "outbox_payload", "event", "idempotency_key"]


async def load_without_indexes(admin: "Admin", *, turns: int) -> None:
    """The same as `load`, for an empty database and millions of turns."""
    await admin.execute("set maintenance_work_mem = '1GB'")
    found = await admin.fetch(_INDEXES, _GROWING)
    for one in found:
        if one["constrains"]:
            await admin.execute(
                f"alter table sink.{one['table']} drop constraint {one['constrains']}"
            )
        else:
            await admin.execute(f"drop index {one['name']}")
    await load(admin, turns=turns, vacuum=False)
    for one in found:
        if one["constrains"]:
            added = f"add constraint {one['constrains']} {one['constraint_made']}"
            await admin.execute(f"alter table sink.{one['table']} {added}")
        else:
            await admin.execute(one["made"])
    await admin.execute("vacuum (analyze)")
    await admin.execute("checkpoint")


async def load(admin: "Admin", *, turns: int, vacuum: bool = True) -> None:
    """Load so many replied turns with three delivered messages and thirteen events each."""
    await admin.execute("set synchronous_commit = off")
    await admin.execute("set work_mem = '256MB'")
    for statement in LANES:
        await admin.execute(statement.format(turns=turns))
    for first in range(1, turns + 1, CHUNK_TURNS):
        last = min(first + CHUNK_TURNS - 1, turns)
        for statement in CHUNK:
            await admin.execute(statement.format(turns=turns, first=first, last=last))
    if vacuum:
        await admin.execute("vacuum (analyze)")
        await admin.execute("checkpoint")
