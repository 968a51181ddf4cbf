"""The two parts of the story: the same crash at the same place, told without a seal and with one."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.dev.demo.agent import Json
from app.dev.demo.receiver import SIGNED_PATH, UNSIGNED_PATH
from app.dev.demo.stage import (
    LEASE_SECONDS,
    POLL_SECONDS,
    QUEUE,
    STEP_SECONDS_MAX,
    Agent,
    Chat,
    DemoFailed,
    Service,
    open_agent,
)
from app.dev.demo.timeline import Timeline
from app.dev.demo.verdict import Accepted, Sealed, Turn

QUESTION = "I would like a waffle maker. Do you have one?"
CONVERSATION = "ada"

# The holder of this lease is not to lose it on a machine that is busy with other things.
_LONG_LEASE_SECONDS = 60
_OK, _ACCEPTED, _CONFLICT = 200, 202, 409


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the second part was answered, for the verdict."""

    accepted: Sequence[Accepted]
    sealed: Sequence[Sealed]
    turn: Turn


async def without_seal(timeline: Timeline, *, folder: Path, chat: Chat) -> None:
    """An agent that speaks as it goes is killed in the middle, and run again."""
    timeline.heading("1. Without a seal: the agent speaks to the user as it goes")
    timeline.tell("user", f'asks "{QUESTION}"')
    task: Json = {"chat": chat.url + UNSIGNED_PATH}
    first = {**task, "name": "agent 1", "sample": 0, "pause_after": 2}
    async with open_agent(first, folder=folder) as agent:
        await _hear_it_say(agent, 2, timeline=timeline)
        await agent.hear("paused")
        await agent.kill()
        timeline.tell("kill -9", "agent 1 dies in the middle of its turn")
    timeline.tell("supervisor", "runs the turn again: the model answers it anew")
    second = {**task, "name": "agent 2", "sample": 1}
    async with open_agent(second, folder=folder) as agent:
        await _hear_it_say(agent, 3, timeline=timeline)
    _show_window(timeline, chat, UNSIGNED_PATH)
    timeline.say(
        "Two beginnings of one answer, and they contradict each other. Nobody can take back what"
        " has been said, and a retry can only say more."
    )


async def _hear_it_say(agent: Agent, count: int, *, timeline: Timeline) -> None:
    for _ in range(count):
        report = await agent.hear("said")
        if report["status"] // 100 != 2:  # noqa: PLR2004
            raise DemoFailed(f"the chat answered {report['status']}")
        timeline.tell(agent.name, f'says "{report["text"]}"')


async def with_seal(timeline: Timeline, *, folder: Path, chat: Chat, service: Service) -> Evidence:
    """The same with Sinksweep between the agent and the user."""
    timeline.heading("2. With Sinksweep: the agent proposes, a seal decides, the sink delivers")
    await service.ready()
    timeline.tell("sinksweep", f"is ready at {service.url}, with a Postgres of its own")
    accepted = await _ask_twice(timeline, service)
    turn = accepted[0]["turn"]
    key = service.keys["agent"]
    task: Json = {"service": service.url, "key": key, "queue": QUEUE}
    first = {**task, "name": "agent A", "sample": 0, "pause_after": 2}
    async with open_agent(first, folder=folder) as agent:
        claimed = await _hear_it_draft(agent, 2, timeline=timeline)
        await agent.hear("paused")
        await agent.kill()
    timeline.tell("kill -9", "agent A dies before its seal, as agent 1 did in the first part")
    timeline.tell("chat", f"has heard nothing: {len(chat.heard(SIGNED_PATH))} messages")
    await _wait_for_sweep(timeline, service, turn)
    second = {**task, "name": "agent B", "sample": 1, "pause_after": 3}
    second["lease_seconds"] = _LONG_LEASE_SECONDS
    async with open_agent(second, folder=folder) as agent:
        again = await _hear_it_draft(agent, 3, timeline=timeline)
        await agent.hear("paused")
        await _come_back_from_the_dead(timeline, service, turn, token=claimed["lease_token"])
        agent.go_on()
        sealed = _sealed(await agent.hear("sealed"), again["drafts"])
        timeline.tell("agent B", f"seals its {len(sealed)} messages: one transaction, all or none")
    return Evidence(accepted, sealed, await _wait_for_reply(timeline, service, turn, chat=chat))


async def _ask_twice(timeline: Timeline, service: Service) -> list[Accepted]:
    """Accept the question, and once more, as a provider that got no answer in time would."""
    body: Json = {"queue": QUEUE, "conversation": CONVERSATION, "payload": {"text": QUESTION}}
    accepted: list[Accepted] = []
    timeline.tell("user", f'asks "{QUESTION}"')
    for expected in (_ACCEPTED, _OK):
        status, answer = await service.ask(
            "/v1/inbound", scope="accept", body=body, idempotency_key="chat-message-1"
        )
        if status != expected:
            raise DemoFailed(f"the accept was answered with {status}: {answer}")
        accepted.append(
            {"id": answer["id"], "turn": answer["turn"], "duplicate": answer["duplicate"]}
        )
    timeline.tell("sinksweep", f"202: it is kept, and its handle is {accepted[0]['turn']}")
    timeline.tell("provider", "missed the answer, and delivers the question again")
    timeline.tell("sinksweep", f"200, a duplicate: {accepted[1]['turn']}")
    return accepted


async def _hear_it_draft(agent: Agent, count: int, *, timeline: Timeline) -> Json:
    """What it claimed; with `drafts`, the texts that it proposes."""
    claimed = await agent.hear("claimed")
    history = "; ".join(f"attempt {old['attempt']} {old['ended']}" for old in claimed["history"])
    timeline.tell(
        agent.name,
        f"claims the turn: attempt {claimed['attempt']}, {len(claimed['questions'])} inbound"
        + (f" (its history: {history})" if history else f", a lease of {LEASE_SECONDS} s"),
    )
    claimed["drafts"] = [(await agent.hear("drafted"))["text"] for _ in range(count)]
    for text in claimed["drafts"]:
        timeline.tell(agent.name, f'drafts "{text}"')
    return claimed


async def _wait_for_sweep(timeline: Timeline, service: Service, turn: str) -> None:
    deadline = time.monotonic() + STEP_SECONDS_MAX
    while not any(event["verb"] == "sweep" for event in await _events(service, turn)):
        if time.monotonic() >= deadline:
            raise DemoFailed("nothing swept the turn of the dead agent")
        await asyncio.sleep(POLL_SECONDS)
    timeline.tell("sinksweep", "sweep: the lease has lapsed, the turn goes back to the queue")


async def _events(service: Service, turn: str) -> list[Json]:
    status, answer = await service.ask(f"/v1/turns/{turn}/events", scope="read")
    if status != _OK:
        raise DemoFailed(f"the turn's events were answered with {status}: {answer}")
    items: list[Json] = answer["items"]
    return items


async def _come_back_from_the_dead(
    timeline: Timeline, service: Service, turn: str, *, token: str
) -> None:
    """Seal with the dead agent's token, as one would that was only cut off for a while."""
    body: Json = {
        "lease_token": token,
        "messages": [{"destination": "chat", "payload": {"text": "I am agent A, back again."}}],
    }
    status, answer = await service.ask(f"/v1/turns/{turn}/seal", scope="agent", body=body)
    timeline.tell(
        "zombie",
        f"seals with agent A's token: {status} {answer.get('code')}, {answer.get('reason')}",
    )
    if (status, answer.get("code")) != (_CONFLICT, "lease_lost"):
        raise DemoFailed(f"a lost lease was answered with {status}: {answer}")


def _sealed(report: Json, texts: Sequence[str]) -> list[Sealed]:
    if report["status"] != _OK:
        raise DemoFailed(f"the seal was answered with {report['status']}: {report['answer']}")
    keys = [message["idempotency_key"] for message in report["answer"]["messages"]]
    return [Sealed(key, text) for key, text in zip(keys, texts, strict=True)]


async def _wait_for_reply(timeline: Timeline, service: Service, turn: str, *, chat: Chat) -> Turn:
    path = f"/v1/turns/{turn}?wait=replied&timeout_seconds=25"
    status, answer = await service.ask(path, scope="read")
    if status != _OK:
        raise DemoFailed(f"the turn was answered with {status}: {answer}")
    for line in chat.heard(SIGNED_PATH):
        timeline.tell(
            "chat", f'hears "{line["text"]}" (signature {line["signature"]})', at=line["at"]
        )
    timeline.tell("sinksweep", f"the turn is {answer['state']}")
    _show_window(timeline, chat, SIGNED_PATH)
    names = {one["id"]: f"message {n}" for n, one in enumerate(answer["messages"], start=1)}
    rows = [_row(event, names) for event in await _events(service, turn)]
    timeline.table("The turn's story, as GET /v1/turns/{id}/events tells it", rows)
    return {
        "id": answer["id"],
        "inbound": answer["inbound"],
        "state": answer["state"],
        "messages": answer["messages"],
    }


def _show_window(timeline: Timeline, chat: Chat, path: str) -> None:
    heard = [("shop", line["text"]) for line in chat.heard(path)]
    timeline.window("What the user sees", [("ada", QUESTION), *heard])


def _row(event: Json, names: Mapping[str, str]) -> str:
    what = names.get(event["message"] or "", "turn")
    move = f"{event['from'] or '-'} -> {event['to']}"
    attempt = f"attempt {event['attempt']}" if event["attempt"] else ""
    return f"{event['verb']:<7} {what:<10} {move:<24} {attempt:<10} {event['reason'] or ''}"
