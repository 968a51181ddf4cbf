"""Short runs of what waits, each through one narrow place. Without a bug every one of them keeps every promise."""

import json
from dataclasses import replace

from tests.api.conftest import opened
from tests.engine.held_stories import HOLD_SECONDS, PLAN, later
from tests.engine.stories import draft
from tests.history.log import Asked, PostAnswered, Posted, Promise, Told, encode, now
from tests.plants.stage import Stage
from tests.plants.waiting_people import DESK

REMINDER_SECONDS = 3601.0


async def stale_page(stage: Stage) -> None:
    """A draft is sent back and drafted anew; it is approved from the page of the first one, then from the right one."""
    held, stale = await stage.drafted("a", "1", "2")
    await stage.decide(held.turn, stale, "revise")
    again = await stage.claim_one("other")
    right = await stage.seal_held(again, "better")
    await stage.decide(held.turn, stale, by="eve")
    await stage.deliver()
    await stage.decide(held.turn, right)
    await stage.seal_held(held, "1", "2")
    await stage.rest()


async def two_reviewers(stage: Stage) -> None:
    """One approves, another rejects, and the first clicks twice."""
    held, shown = await stage.drafted("a", "1")
    await stage.decide(held.turn, shown)
    await stage.decide(held.turn, shown, "reject", by="eve")
    await stage.decide(held.turn, shown)
    await stage.rest()


async def behind_a_deadline(stage: Stage) -> None:
    """The machines of the service are a day ahead of the database, in which a hold has an hour left."""
    await stage.travel(-86_400)
    held, shown = await stage.drafted("a", "1", plan=replace(PLAN, on_deadline="cancel"))
    await stage.deadlines()
    await stage.decide(held.turn, shown)
    await stage.rest()


async def undecided(stage: Stage) -> None:
    """Nobody decides: until the deadline, behind it, and behind the reminders."""
    stage.agree(told_queues=("default",))
    await stage.drafted("a", "1")
    await stage.deadlines()
    await stage.deliver(destination=DESK)
    await stage.travel(HOLD_SECONDS + 1)
    for _ in range(3):
        await stage.deadlines()
        await stage.deliver(destination=DESK)
        await stage.travel(REMINDER_SECONDS)
    await stage.rest()


async def sent_by_the_clock(stage: Stage) -> None:
    """Nobody decides where the configuration says that a set is sent then."""
    stage.agree(sent_queues=("default",))
    await stage.drafted("a", "1", plan=replace(PLAN, on_deadline="send"))
    await stage.travel(HOLD_SECONDS + 1)
    await stage.deadlines()
    await stage.rest()


async def eager_worker(stage: Stage) -> None:
    """A worker looks for something to send while a set waits for its decision."""
    held, shown = await stage.drafted("a", "1", "2")
    await stage.travel(1)
    await stage.deliver()
    await stage.decide(held.turn, shown)
    await stage.rest()


async def rejected(stage: Stage) -> None:
    """A set is rejected with what it asked for later."""
    held, shown = await stage.drafted("a", "1", follow_ups=(later("x"), later("y")))
    await stage.decide(held.turn, shown, "reject")
    await stage.travel(1)
    await stage.sink.due()
    await stage.rest()


async def followed_up(stage: Stage) -> None:
    """A held set asks for something later; its agent seals again before and after the approval."""
    held, shown = await stage.drafted("a", "1", follow_ups=(later("x"), later("y", "c")))
    await stage.seal_held(held, "1", follow_ups=(later("x"), later("y", "c")))
    await stage.travel(1)
    await stage.sink.due()
    await stage.decide(held.turn, shown)
    await stage.seal_held(held, "1", follow_ups=(later("x"), later("y", "c")))
    await stage.rest()


async def early_signal(stage: Stage) -> None:
    """An event comes before its turn waits for it, comes twice, and another one comes under its name."""
    held = await stage.hold("a", "c")
    await stage.signal(held.turn, '"paid"')
    await stage.signal(held.turn, '"paid"')
    await stage.signal(held.turn, '"charged back"')
    await stage.park(held, seconds=600.0)
    await stage.travel(1)
    await stage.rest()


async def late_signal(stage: Stage) -> None:
    """An event comes while its turn waits, and is told again once its turn has heard it."""
    held = await stage.hold("a", "c")
    await stage.park(held)
    await stage.signal(held.turn, '"paid"')
    again = await stage.claim_one()
    await stage.signal(held.turn, '"paid"')
    await stage.seal(again, "thanks")
    await stage.rest()


async def cancelled_while_parked(stage: Stage) -> None:
    """A turn that waits is wanted no more when its event comes."""
    held = await stage.hold("a", "c")
    await stage.park(held)
    await stage.cancel(held.turn)
    await stage.travel(1)
    await stage.signal(held.turn, '"paid"')
    await stage.rest()


async def unheard(stage: Stage) -> None:
    """Whoever is told of a hold does not want to hear it, and somebody is to be told of that."""
    await stage.drafted("a", "1")
    await stage.deadlines()
    await stage.deliver(400, destination=DESK)
    await stage.travel(1)
    await stage.deadlines()
    await stage.rest()


async def edited(stage: Stage) -> None:
    """A reviewer leaves one message as it is, changes one and adds one, and asks no more of what follows."""
    held, shown = await stage.drafted("a", "1", "2", follow_ups=(later("x"),))
    await stage.decide(held.turn, shown, edited=[draft("1"), draft("two"), draft("three")])
    await stage.rest()


async def forged_draft(stage: Stage) -> None:
    """Somebody changes what waits, in the database, with its hash, and later puts back what was there."""
    held, shown = await stage.drafted("a", "1", "2")
    await stage.forge(b"2", b"three")
    await stage.decide(held.turn, shown)
    await stage.deliver()
    await stage.deliver()
    await stage.forge(b"three", b"2")
    await stage.decide(held.turn, shown)
    await stage.rest()


async def wished_to_be_sent(stage: Stage) -> None:
    """Over HTTP, an agent wants its set sent at a deadline of its own, in a queue that holds everything."""
    stage.agree(held_queues=("strict",))
    queues = {"strict": {"hold": "always"}}
    async with opened(stage.url, queues=queues) as service:
        body = b'{"n": 1}'
        stage.note(Posted("post", now(), "api", "queue/strict", "k", encode(body)))
        accepted = await service.accept("k", queue="strict", payload=json.loads(body))
        fields = {name: accepted.json[name] for name in ("turn", "state", "duplicate")}
        stage.note(PostAnswered("post", now(), accepted.status, accepted.json["id"], **fields))
        (turn,) = (await service.claim(queue="strict")).json["turns"]
        assert accepted.json["turn"] == turn["id"]
        messages = [{"destination": "crm", "payload": "now"}]
        asked = Asked(
            "seal",
            now(),
            "agent",
            "seal",
            turn=turn["id"],
            token=turn["lease_token"],
            request="set",
            bodies_base64=(encode(b'"now"'),),
        )
        stage.note(asked)
        hold = {"deadline_seconds": 1, "on_deadline": "send"}
        answer = await service.seal(turn, messages, hold=hold)
        sealed = answer.json
        promises = tuple(
            Promise(m["id"], m["idempotency_key"], m["state"]) for m in sealed["messages"]
        )
        digest = sealed["payload_hash"]
        told = Told("seal", now(), answer.status, sealed["state"], payload_hash=digest)
        stage.note(replace(told, messages=promises))
