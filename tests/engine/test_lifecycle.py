"""What the verbs do to every state is exactly what the lifecycle declares: in the rows and in the events."""

import os
import random
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import asyncpg
import pytest

from app.domain.ids import IdFactory
from app.domain.lifecycle import MESSAGE_MOVES, TURN_MOVES, MessageState, Move, TurnState
from app.domain.model import Claimed
from app.engine.database import open_pool
from tests.database import Clock, Server, options_for
from tests.engine.invariants import broken
from tests.engine.plays import FENCED, VERBS
from tests.engine.situations import SITUATIONS as WORKING
from tests.engine.situations import Placed, Stage
from tests.engine.stories import Sink
from tests.engine.waiting_plays import Moved
from tests.engine.waiting_situations import SITUATIONS as WAITING

if TYPE_CHECKING:
    from tests.database import Admin

# The first of its tests waits until every verb was played against every state.
pytestmark = pytest.mark.timeout(180)

SITUATIONS = {**WORKING, **WAITING}
NOBODYS_LEASE = Claimed(uuid4(), uuid4(), 1, 0.0, None, (), ())


@dataclass(slots=True)
class Observed:
    """What the verbs did, over all situations."""

    turns: set[Moved] = field(default_factory=set)
    messages: set[Moved] = field(default_factory=set)
    turn_states: set[str] = field(default_factory=set)
    message_states: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    played: int = 0


SAVE = """
    drop schema if exists saved cascade;
    create schema saved;
    do $$
    declare name text;
    begin
        for name in select relname from pg_class where relnamespace = 'sink'::regnamespace and relkind = 'r'
        loop execute format('create table saved.%1$I as table sink.%1$I', name);
        end loop;
    end $$
"""
RESTORE = """
    do $$
    declare name text;
    begin
        for name in select relname from pg_class where relnamespace = 'saved'::regnamespace and relkind = 'r'
        loop
            execute format('delete from sink.%I', name);
            execute format('insert into sink.%1$I overriding system value select * from saved.%1$I', name);
        end loop;
    end $$
"""
EMPTY = """
    truncate sink.idempotency_key, sink.inbound, sink.lane, sink.turn, sink.attempt, sink.claim_request,
    sink.delivery_lane, sink.outbox, sink.outbox_payload, sink.resend, sink.event, sink.destination, sink.pause,
    sink.standstill, sink.hold, sink.wait, sink.signal, sink.follow_up, sink.notice
"""

States = dict[UUID, str]


async def _states(admin: "Admin", table: str) -> States:
    rows = await admin.fetch(f"select id, state from sink.{table}")
    return {row["id"]: row["state"] for row in rows}


async def _play(stage: Stage, placed: Placed, name: str, *, strange: bool, into: Observed) -> None:
    """Run one verb, and compare what the rows say with what the events say."""
    admin = stage.admin
    before = await _states(admin, "turn") | await _states(admin, "outbox")
    mark = await admin.fetchval("select coalesce(max(id), 0) from sink.event")
    held, taken = placed.held or NOBODYS_LEASE, placed.taken
    if strange:
        held = replace(held, token=uuid4())
        taken = replace(taken, attempt_id=uuid4()) if taken else None
    silent = await VERBS[name](stage.sink, held, taken) or set()
    turns, messages = await _states(admin, "turn"), await _states(admin, "outbox")
    told: dict[UUID, str | None] = dict(before)
    moves: set[Moved] = set()
    for event in await admin.fetch("select * from sink.event where id > $1 order by id", mark):
        subject = event["message"] or event["turn"]
        move = (event["verb"], event["from_state"], event["to_state"])
        if told.get(subject) != event["from_state"]:
            into.faults.append(f"{name}: {move} of one that is {told.get(subject)}")
        told[subject] = event["to_state"]
        (into.messages if event["message"] else into.turns).add(move)
        moves.add(move)
    if told != turns | messages:
        into.faults.append(f"{name}: the rows and the events differ")
    into.turns |= silent
    if strange and (silent or moves):
        into.faults.append(f"{name}: moved by a stranger: {moves | silent}")
    into.turn_states |= set(turns.values())
    into.message_states |= set(messages.values())
    into.faults += [f"{name}: {rule}" for rule in await broken(admin)]
    into.played += 1


@pytest.fixture(scope="module")
async def observed(postgres: Server) -> AsyncIterator[Observed]:
    """Every verb against every situation, each from the same start."""
    observed = Observed()
    ids = IdFactory(milliseconds=lambda: time.time_ns() // 1_000_000, random_bytes=os.urandom)
    async with (
        postgres.database() as url,
        open_pool(options_for(url), application_name="matrix") as pool,
    ):
        admin = await asyncpg.connect(url)
        stage = Stage(Sink(pool, ids, random.Random(0)), admin, Clock(admin))
        for situation, place in SITUATIONS.items():
            await admin.execute(EMPTY)
            placed = await place(stage)
            await admin.execute(SAVE)
            for name in VERBS:
                for strange in (False, True) if name in FENCED else (False,):
                    found = len(observed.faults)
                    await _play(stage, placed, name, strange=strange, into=observed)
                    observed.faults[found:] = [
                        f"{situation}: {fault}" for fault in observed.faults[found:]
                    ]
                    await admin.execute(RESTORE)
        await admin.close()
        yield observed


def _declared(moves: "dict[str, frozenset[Move]]") -> set[Moved]:
    return {(verb, *move) for verb, allowed in moves.items() for move in allowed}


def test_rows_and_events_tell_the_same_and_no_stranger_moves_anything(observed: Observed) -> None:
    assert observed.faults == []
    assert observed.played == len(SITUATIONS) * (len(VERBS) + len(FENCED))


def test_the_moves_of_turns_are_exactly_the_declared_ones(observed: Observed) -> None:
    assert observed.turns == _declared(dict(TURN_MOVES))


def test_the_moves_of_messages_are_exactly_the_declared_ones(observed: Observed) -> None:
    assert observed.messages == _declared(dict(MESSAGE_MOVES))


def test_every_state_is_reached(observed: Observed) -> None:
    assert observed.turn_states == set(TurnState)
    assert observed.message_states == set(MessageState)


@pytest.mark.parametrize(("table", "states"), [("turn", TurnState), ("outbox", MessageState)])
async def test_the_database_knows_exactly_the_declared_states(
    admin: "Admin", table: str, states: type[TurnState] | type[MessageState]
) -> None:
    condition = await admin.fetchval(
        "select pg_get_constraintdef(oid) from pg_constraint"
        " where conname = 'state_known' and conrelid = $1::text::regclass",
        f"sink.{table}",
    )
    assert set(re.findall(r"'(\w+)'", condition)) == set(states)
