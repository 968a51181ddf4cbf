"""Crowds, placed by SQL: conversations with backlogs, leases that are over, retries that are due."""

from typing import TYPE_CHECKING

from app.domain.seal import message_hash

if TYPE_CHECKING:
    from tests.database import Admin

# An id as the service mints it: the time in front. Of a column `at`.
ID = """
    (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0')
    || substr(replace(gen_random_uuid()::text, '-', ''), 13))::uuid
"""

# They came in turn: the first of each conversation, then the second of each, a millisecond after the other.
_WAITING = (
    f"""
    create temporary table crowd as
    select c, d, {ID} as turn, {ID} as inbound, 'w' || c as conversation, at
    from (
        select
            c, d,
            sink.now() - make_interval(secs => 1 + ({{depth}}::bigint * {{conversations}} - n) / 1000.0) as at
        from generate_series(1, {{depth}}) as d
        cross join generate_series(0, {{conversations}} - 1) as c
        cross join lateral (select (d - 1) * {{conversations}}::bigint + c as n) as numbered
        order by n
    ) as arrived
    """,
    """
    insert into sink.lane (queue, conversation, tail, holder)
    select 'default', conversation, {depth}, turn from crowd where d = 1
    """,
    """
    insert into sink.inbound (
        id, turn, queue, source, conversation, received_at, content_type, headers, body, strict_json
    )
    select inbound, turn, 'default', 'api', conversation, at, 'application/json', '{{}}', '{{}}', true from crowd
    """,
    """
    insert into sink.turn (
        id, queue, conversation, lane_seq, priority, state, created_at, due_at, input_bytes
    )
    select
        turn, 'default', conversation, d, 0, case d when 1 then 'queued' else 'waiting' end, at, at, 2
    from crowd
    """,
    "drop table crowd",
)

# Of turns that were loaded as finished, some were never claimed back, and some messages are to be sent again.
_LAPSED = """
    with chosen as (select id from sink.turn where state = 'replied' and queue = $1 order by id limit $2),
    gone as (delete from sink.outbox as o using chosen where o.turn = chosen.id),
    open as (
        update sink.attempt as a set ended = null, ended_at = null, token = a.turn from chosen where a.turn = chosen.id
    )
    update sink.turn as t
    set
        state = 'processing', payload_hash = null, seal = 0, token = t.id, lease_seconds = 1,
        lease_expires_at = sink.now() - interval '1 minute', conversation = null, lane_seq = null
    from chosen where t.id = chosen.id
"""

_RETRIES = """
    with chosen as (
        select o.id, o.turn from sink.outbox as o inner join sink.turn as t on t.id = o.turn
        where o.state = 'delivered' and o.position = 0 and t.state = 'replied' and t.queue = $1
        order by o.id limit $2
    ),
    turns as (update sink.turn as t set state = 'sealed' from chosen where t.id = chosen.turn)
    update sink.outbox as o
    set
        state = 'pending', delivered_at = null, due_at = sink.now() - interval '1 minute', due_since = sink.now(),
        conversation = null, place = null, destination = $3
    from chosen where o.id = chosen.id
"""

_SAID = "select body from sink.outbox_payload limit 1"
_HASHED = """
    update sink.outbox_payload as p set hash = $1
    from sink.outbox as o
    where p.message = o.id and o.state = 'pending'
"""


async def crowd_lanes(admin: "Admin", *, conversations: int, depth: int) -> None:
    """So many conversations, each with so many turns of which the first is queued and the others wait."""
    for statement in _WAITING:
        await admin.execute(statement.format(conversations=conversations, depth=depth))
    await admin.execute("vacuum (analyze)")
    await admin.execute("checkpoint")


async def storm(admin: "Admin", *, queue: str, destination: str, each: int) -> None:
    """Of finished turns of a queue, let so many have a lapsed lease, and so many a message that is due again."""
    await admin.execute(_RETRIES, queue, each, destination)
    await admin.execute(_LAPSED, queue, each)
    # What was loaded has a made-up hash: that of what is to be sent has to be right, and all say the same.
    body = await admin.fetchval(_SAID)
    right = message_hash(
        destination=destination,
        recipient=None,
        conversation=None,
        headers={},
        content_type="text/plain",
        delay_seconds=0.0,
        body=body,
    )
    await admin.execute(_HASHED, right)
    await admin.execute("vacuum (analyze)")
    await admin.execute("checkpoint")
