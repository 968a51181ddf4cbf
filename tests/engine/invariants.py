"""What must hold in a database at any moment between two transactions, as queries that return what breaks it."""

from typing import TYPE_CHECKING

from tests.engine import waiting_invariants

if TYPE_CHECKING:
    from tests.database import Admin

RULES = {
    "an inbound has one turn and a turn has an inbound": """
        select t.id from sink.turn as t full join sink.inbound as i on i.turn = t.id
        -- Who tells of another has no input.
        where t.id is null or (i.id is null and t.about is null)
    """,
    "a turn counts its inbound and their bytes, and gave each a place": """
        select t.id from sink.turn as t left join sink.inbound as i on i.turn = t.id
        group by t.id
        having t.inbound_count <> count(i.id) or t.input_bytes <> coalesce(sum(octet_length(i.body)), 0)
            or count(distinct i.position) <> count(i.id) or max(i.position) <> count(i.id) - 1
    """,
    "a turn gains inbound only before its first claim": """
        select j.turn from sink.event as j inner join sink.event as c on c.turn = j.turn and c.id < j.id
        where j.verb = 'join' and c.verb = 'claim' and c.to_state = 'processing'
    """,
    "a key stands for an inbound and its turn, or for their tombstones": """
        select k.key from sink.idempotency_key as k
        left join sink.inbound as i on i.id = k.inbound and i.turn = k.turn
        left join sink.tombstone as gone on gone.id = k.inbound and gone.turn = k.turn
        left join sink.tombstone as grave on grave.id = k.turn
        where i.id is null and (gone.id is null or grave.id is null)
    """,
    "nothing hangs on what is gone": """
        select turn from sink.attempt where turn not in (select id from sink.turn)
        union all select message from sink.outbox_payload where message not in (select id from sink.outbox)
        union all select id from sink.outbox where id not in (select message from sink.outbox_payload)
        union all select turn from sink.event where turn not in (select id from sink.turn)
        union all
        select message from sink.event where message is not null and message not in (select id from sink.outbox)
        union all select message from sink.resend where message not in (select id from sink.outbox)
    """,
    "nothing is both there and buried, and what is buried is buried with its turn": """
        select g.id from sink.tombstone as g
        where exists (select from sink.turn as t where t.id in (g.id, g.turn))
            or exists (select from sink.inbound as i where i.id = g.id)
            or exists (select from sink.outbox as o where o.id = g.id)
            or not exists (select from sink.tombstone as t where t.id = g.turn)
    """,
    "who has a place has the lane that gave it": """
        select t.id from sink.turn as t
        where t.lane_seq is not null and not exists (
            select from sink.lane as l where l.queue = t.queue and l.conversation = t.conversation
        )
        union all
        select o.id from sink.outbox as o
        where o.state in ('pending', 'sending') and not o.left_lane and o.place is not null and not exists (
            select from sink.delivery_lane as l
            where l.queue = o.queue and l.conversation = o.conversation and l.destination = o.destination
                and l.tail >= o.place
        )
    """,
    "a lane's holder is its queued, processing or parked turn, and the other way round, or one that is held": """
        select l.conversation from sink.lane as l
        full join (
            select t.* from sink.turn as t
            left join sink.lane as own on own.queue = t.queue and own.conversation = t.conversation
            where t.conversation is not null and (
                t.state in ('queued', 'processing', 'parked')
                or (t.state in ('held', 'escalated') and own.holder = t.id)
            )
        ) as t on t.queue = l.queue and t.conversation = l.conversation
        where l.holder is distinct from t.id
    """,
    "a free lane has nobody waiting": """
        select w.id from sink.turn as w
        inner join sink.lane as l on l.queue = w.queue and l.conversation = w.conversation
        where w.state = 'waiting' and l.holder is null
    """,
    "places in a lane are given once and up to its tail": """
        select t.id from sink.turn as t
        inner join sink.lane as l on l.queue = t.queue and l.conversation = t.conversation
        where t.lane_seq > l.tail or exists (
            select from sink.turn as o
            where o.queue = t.queue and o.conversation = t.conversation and o.lane_seq = t.lane_seq and o.id <> t.id
        )
    """,
    "attempt numbers rise by one, and all but the last of a turn have ended": """
        select t.id from sink.turn as t left join sink.attempt as a on a.turn = t.id
        group by t.id
        having count(a.number) <> t.attempt or coalesce(max(a.number), 0) <> t.attempt
            or count(*) filter (where a.number is not null and a.ended is null)
                <> (t.state = 'processing')::int
    """,
    "a lease token is that of the open attempt, and none is given twice": """
        select t.id from sink.turn as t
        left join sink.attempt as a on a.turn = t.id and a.token = t.token and a.ended is null
        where t.token is not null and a.turn is null
        union all select max(turn::text)::uuid from sink.attempt group by token having count(*) > 1
    """,
    "what an attempt used is counted once": """
        with allowance as (
            -- A redrive starts a new one: the attempts before it no longer count.
            select t.*, (
                select count(*) from sink.event as c
                where c.turn = t.id and c.verb = 'claim' and c.to_state = 'processing' and c.id < (
                    select max(r.id) from sink.event as r
                    where r.turn = t.id and r.message is null and r.verb = 'redrive' and r.from_state = 'failed'
                )
            ) as spent, (
                -- What came back from a reviewer costs none.
                select count(*) from sink.event as v
                where v.turn = t.id and v.message is null and v.verb = 'revise' and v.id > coalesce((
                    select max(r.id) from sink.event as r
                    where r.turn = t.id and r.message is null and r.verb = 'redrive' and r.from_state = 'failed'
                ), 0)
            ) as revised
            from sink.turn as t
        )
        select t.id from allowance as t inner join sink.attempt as a on a.turn = t.id
        group by t.id, t.attempts_used, t.releases, t.spent, t.revised
        having t.attempts_used <> count(*) filter (
            where a.number > t.spent and coalesce(a.ended, '') not in ('released', 'parked')
        ) - t.revised
            or t.releases <> count(*) filter (
                where a.number > t.spent and a.ended = 'released' and a.reason <> 'client_gone'
            )
    """,
    "a turn is replied if and only if its whole set is delivered": """
        select t.id from sink.turn as t left join sink.outbox as o on o.turn = t.id and o.seal = t.seal
        -- A set that is held or void is no answer.
        where t.payload_hash is not null and t.state not in ('held', 'escalated', 'cancelled')
        group by t.id having (t.state = 'replied') <> coalesce(bool_and(o.state = 'delivered'), true)
    """,
    "an undelivered turn has nothing that moves by itself, a sealed one has": """
        with recursive stuck (id) as (
            select id from sink.outbox where state in ('dead', 'unknown')
            union
            select o.id from sink.outbox as o inner join stuck on o.blocked_by = stuck.id
        )
        select t.id from sink.turn as t inner join sink.outbox as o on o.turn = t.id and o.seal = t.seal
        where t.state in ('sealed', 'undelivered')
        group by t.id
        having (t.state = 'sealed')
            <> bool_or(o.state in ('pending', 'sending') and o.id not in (select id from stuck))
    """,
    "messages exist only for sealed turns, and live ones only for those whose set was let go": """
        select o.id from sink.outbox as o left join sink.turn as t on t.id = o.turn and t.seal >= o.seal
        where t.id is null
            or (o.state not in ('held', 'cancelled') and t.state not in ('sealed', 'replied', 'undelivered'))
    """,
    "a blocker is open or stuck and comes before": """
        select o.id from sink.outbox as o left join sink.outbox as b on b.id = o.blocked_by
        where o.blocked_by is not null and (
            b.id is null or b.state in ('delivered', 'cancelled')
            or case when b.turn = o.turn then b.position >= o.position else b.place >= o.place end
        )
    """,
    "an unblocked message has nobody open before it in its lane": """
        select o.id from sink.outbox as o inner join sink.outbox as b
            on b.queue = o.queue and b.conversation = o.conversation and b.destination = o.destination
            and b.place < o.place
        where o.state = 'pending' and o.blocked_by is null and o.attempts = 0 and not o.left_lane
            and not b.left_lane and b.state in ('pending', 'sending')
    """,
    "an unblocked message has nobody unconfirmed before it in its set": """
        select o.id from sink.outbox as o inner join sink.outbox as b
            on b.turn = o.turn and b.seal = o.seal and b.position < o.position and (
                o.strict or b.destination = o.destination and b.conversation is not distinct from o.conversation
            )
        where o.state in ('pending', 'sending') and o.blocked_by is null and o.attempts = 0
            and b.state not in ('delivered', 'cancelled')
    """,
    "what is dead or unknown has left the lane of other sets, and so has what it stops": """
        select o.id from sink.outbox as o inner join sink.outbox as b
            on b.turn = o.turn and b.seal = o.seal and b.position <= o.position and (
                o.strict or b.destination = o.destination and b.conversation is not distinct from o.conversation
            )
        where b.state in ('dead', 'unknown') and not o.left_lane
    """,
    "a cancelled turn has no lease and no open attempt, and nothing is taken after a cancel": """
        select t.id from sink.turn as t inner join sink.attempt as a on a.turn = t.id
        where t.state = 'cancelled' and a.ended is null
        union all
        select c.message from sink.event as c inner join sink.event as e on e.message = c.message and e.id > c.id
        where c.to_state = 'cancelled' and e.verb not in ('fact', 'resend')
    """,
    "a destination counts what is being sent, and none is counted without its row": """
        select coalesce(d.name, o.destination) from sink.destination as d
        full join (
            select destination, count(*) as messages from sink.outbox where state = 'sending' group by destination
        ) as o on o.destination = d.name
        where coalesce(d.sending, -1) <> coalesce(o.messages, 0)
    """,
    "a breaker that is not closed has one standstill that goes on, and a closed one none": """
        select d.name from sink.destination as d
        left join sink.standstill as s on s.destination = d.name and s.cause = 'breaker' and s.ended_at is null
        where (d.breaker <> 'closed') <> (s.destination is not null)
        union all select destination from sink.standstill where ended_at < began_at
    """,
    "a destination that is probed has one attempt at the most": """
        select name from sink.destination where breaker = 'probing' and sending > 1
    """,
    "what a source holds up is scheduled for no time, and nothing else is": """
        select id from sink.turn
        where (state = 'scheduled' and due_at = 'infinity') <> (state = 'scheduled' and held_source is not null)
    """,
    "what is paused and sent to stands, and nothing else does": """
        select coalesce(p.name, s.destination) from (
            select name from sink.pause where kind in ('all', 'destination')
        ) as p
        full join (
            select destination from sink.standstill where cause = 'pause' and ended_at is null
        ) as s on s.destination = p.name
        where p.name is null or s.destination is null
    """,
    "what an operation has found was changed, refused or failed": """
        select id from sink.operation where found <> changed + refused + failed
    """,
    "a dead message never may have arrived": """
        select id from sink.outbox where state = 'dead' and may_have_arrived
    """,
    **waiting_invariants.RULES,
    "the events of a turn are one chain that ends where it is": """
        select turn from (
            select e.turn, e.from_state, lag(e.to_state) over story as before,
                e.to_state, t.state, lead(e.id) over story is null as is_last
            from sink.event as e left join sink.turn as t on t.id = e.turn
            where e.message is null
            window story as (partition by e.turn order by e.id)
        ) as told
        where from_state is distinct from before or (is_last and to_state is distinct from state)
        union all
        select id from sink.turn where id not in (select turn from sink.event where message is null)
    """,
    "the events of a message are one chain that ends where it is": """
        select message from (
            select e.message, e.from_state, lag(e.to_state) over story as before,
                e.to_state, o.state, lead(e.id) over story is null as is_last
            from sink.event as e left join sink.outbox as o on o.id = e.message
            where e.message is not null
            window story as (partition by e.message order by e.id)
        ) as told
        where from_state is distinct from before or (is_last and to_state is distinct from state)
        union all
        select id from sink.outbox where id not in (select message from sink.event where message is not null)
    """,
}


async def broken(admin: "Admin") -> dict[str, list[str]]:
    """The rules that do not hold, with what breaks them."""
    found = {}
    for rule, query in RULES.items():
        rows = await admin.fetch(query)
        if rows:
            found[rule] = [str(row[0]) for row in rows]
    return found
