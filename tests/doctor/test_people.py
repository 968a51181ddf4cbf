"""The doctor of what waits for people: each finding shown with something that nobody hears of."""

from dataclasses import replace
from typing import TYPE_CHECKING

from app.doctor.findings import Level
from app.doctor.patient import Patient
from app.domain.model import HoldPlan
from tests.database import Clock
from tests.doctor.conftest import OpenPatient, level, look
from tests.engine.stories import Sink, arrival, draft, sealing

if TYPE_CHECKING:
    from tests.database import Admin

HERE = {"oncall": {"kind": "loopback"}}


async def _held(sink: Sink, key: str = "a") -> None:
    plan = HoldPlan("seal", deadline_seconds=86_400.0, on_deadline="escalate")
    held = await sink.hold(key)
    await sink.seal(replace(sealing(held, draft()), hold=plan))


async def test_nothing_that_waits_is_good(patient: Patient) -> None:
    for code in ("approvers", "holds", "notices"):
        assert await level(patient, code) is Level.GOOD, code


async def test_holds_of_which_nobody_is_told_are_wrong(
    patient: Patient, opening: OpenPatient, sink: Sink
) -> None:
    await _held(sink)
    (finding,) = await look(patient, "holds")
    assert finding.level is Level.WRONG
    assert "nobody is told" in finding.text
    told = {"default": {"escalate_to": "oncall"}}
    async with opening(queues=told, destinations=HERE) as other:
        assert await level(other, "holds") is Level.GOOD


async def test_holds_that_are_old_or_past_their_deadline_are_told(
    opening: OpenPatient, sink: Sink, clock: Clock, admin: "Admin"
) -> None:
    await _held(sink, "a")
    await _held(sink, "b")
    await clock.travel(50_000)
    await admin.execute(
        "update sink.turn set state = 'escalated' where id = (select min(id::text)::uuid from sink.turn)"
    )
    await admin.execute(
        "insert into sink.event (turn, verb, from_state, to_state)"
        " select id, 'expire', 'held', 'escalated' from sink.turn where state = 'escalated'"
    )
    told = {"default": {"approvers": "oncall", "escalate_to": "oncall"}}
    async with opening(queues=told, destinations=HERE) as patient:
        escalated, old = await look(patient, "holds")
    assert {escalated.level, old.level} == {Level.WARNING}
    assert escalated.text.endswith("past their deadline: 1.")
    assert "open for 13.9 h" in old.text


async def test_holds_of_a_queue_that_is_not_configured_are_told(
    patient: Patient, sink: Sink
) -> None:
    await sink.accept(arrival("a", queue="forgotten"))
    (held,) = await sink.claim(1, queue="forgotten")
    plan = HoldPlan("seal", deadline_seconds=60.0, on_deadline="escalate")
    await sink.seal(replace(sealing(held, draft()), hold=plan))
    (finding,) = await look(patient, "holds")
    assert finding.level is Level.WARNING
    assert "forgotten, which is not configured" in finding.text
    (notice,) = await look(patient, "notices")
    assert notice.level is Level.WARNING
    assert "forgotten, which is not configured: 1." in notice.text


async def test_deadlines_that_nobody_keeps_are_wrong(
    patient: Patient, sink: Sink, clock: Clock
) -> None:
    await _held(sink, "a")
    await sink.parked("b", seconds=100.0)
    assert await level(patient, "sweep") is Level.GOOD
    for seconds in (200, 90_000):
        await clock.travel(seconds)
        (finding,) = await look(patient, "sweep")
        assert finding.level is Level.WRONG
        assert finding.text.startswith("The deadline of a hold or a park is over")
        await sink.wake_parked()


async def test_notices_of_which_nothing_becomes_are_wrong(
    patient: Patient, sink: Sink, clock: Clock
) -> None:
    held = await sink.hold("a")
    await sink.hand_back(held, final=True)
    assert await level(patient, "notices") is Level.GOOD
    await clock.travel(100)
    (finding,) = await look(patient, "notices")
    assert finding.level is Level.WRONG
    assert "role sweep" in finding.advice


async def test_queues_with_holds_name_who_is_asked_and_who_hears_of_a_deadline(
    opening: OpenPatient,
) -> None:
    queues = {
        "mute": {"hold": "always", "approvers": "oncall"},
        "half": {"hold": "always", "escalate_to": "oncall"},
        "whole": {"hold": "always", "escalate_to": "oncall", "approvers": "oncall"},
        "plain": {},
    }
    async with opening(queues=queues, destinations=HERE) as patient:
        mute, half = await look(patient, "approvers")
    assert (mute.level, half.level) == (Level.WRONG, Level.WARNING)
    assert "queues.mute.escalate_to" in mute.text
    assert "queue half" in half.text
