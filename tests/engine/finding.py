"""What people look for and change by the many: every way of it, to a batch each, for plans to be looked at."""

from uuid import UUID

from app.engine import operation
from app.engine.matching import Filter
from app.engine.operation import Order
from app.engine.operation_batch import work_on
from app.engine.pages import LATEST
from app.engine.sealed_set import find_set
from app.engine.search_messages import MessageFilter, search_messages
from app.engine.search_turns import TurnFilter, search_turns
from app.engine.standing import find_turn
from tests.engine.stories import Sink, arrival, draft, sealing

# As much as one page or batch may look at here.
LOOK_MAX = 200
LIVE = frozenset({"queued", "waiting", "scheduled", "processing"})
KEPT = frozenset({"sealed", "failed", "undelivered", "cancelled"})
ASKING = frozenset({"parked", "held", "escalated"})
# What many turns of a past came of, and what many of them tell of.
KIN = UUID(int=7)


async def look_for_everything(sink: Sink, batch: int) -> None:
    """Every list by every filter."""
    await sink.accept(*(arrival(f"look-{n}", f"look{n // 2}") for n in range(batch)))
    held = await sink.claim(batch)
    await sink.seal(*(sealing(one, draft("1"), draft("2")) for one in held))
    for queues in (None, ["default"], ["support"]):
        for turns in (
            TurnFilter(queues=queues),
            TurnFilter(queues=queues, key="past-7"),
            TurnFilter(queues=queues, conversation="p7"),
            TurnFilter(queues=queues, states=LIVE),
            TurnFilter(queues=queues, states=KEPT),
            TurnFilter(queues=queues, states=ASKING),
            TurnFilter(queues=queues, root=KIN),
            TurnFilter(queues=queues, about=KIN),
            TurnFilter(queues=queues, key="past-7", root=KIN),
            TurnFilter(queues=queues, states=frozenset({"replied"})),
        ):
            await search_turns(sink.pool, turns, limit=batch, walk_max=LOOK_MAX)
        for messages in (
            MessageFilter(queues=queues),
            MessageFilter(queues=queues, turn=held[0].turn),
            MessageFilter(queues=queues, states=frozenset({"pending", "sending"})),
            MessageFilter(queues=queues, states=frozenset({"dead", "unknown", "cancelled"})),
            MessageFilter(queues=queues, states=frozenset({"delivered"}), destination="crm"),
        ):
            await search_messages(sink.pool, messages, limit=batch, walk_max=LOOK_MAX)
    asking, _ = await search_turns(sink.pool, TurnFilter(queues=None, states=ASKING), limit=batch)
    for turn in asking:
        await find_turn(sink.pool, turn.id)
        await find_set(sink.pool, turn.id)


async def change_by_the_many(sink: Sink, batch: int) -> None:
    """Every operation, a batch of each, for a filter with and without an index of its own."""
    orders = [
        Order(kind=kind, verb=verb, wanted=Filter(states=states), asked={}, outcome="delivered")
        for (kind, verb), known in operation.STATES.items()
        for states in (known, known[-1:])
    ]
    for order in orders:
        await operation.count_matches(sink.pool, order, until=LATEST, walk_max=LOOK_MAX)
        begun = await operation.begin_operation(sink.pool, order, ids=sink.ids, by="ada")
        await work_on(sink.pool, begun.id, rows_max=batch, walk_max=LOOK_MAX)
        await operation.cancel_operation(sink.pool, begun.id)
    await operation.running_operations(sink.pool, operations_max=batch)
    await operation.list_operations(sink.pool, queues=None, before=LATEST, limit=batch)
    await operation.queue_is_known(sink.pool, "default")
