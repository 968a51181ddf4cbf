"""Whatever is asked of whichever call, the answer is one that it documents, and tells nothing of another's queue."""

import random
import re

import pytest

from app.api.calls import Call
from app.api.codes import CONTENT_CODES, REQUEST_CODES
from app.api.openapi import EVERYWHERE
from app.api.routes import CALLS
from app.domain.model import Settlement, Slots, Verdict
from app.engine.keys import create_key
from app.engine.settle import settle
from app.engine.take import take
from tests.api.chance import Chance
from tests.api.conftest import Answer, Service

REQUESTS = 600
# Words of the rows of the other queue, and of none of the requests.
FOREIGN = "foreign-words"
BOUND = ("tenant", "support")
VERDICTS = (
    Verdict("delivered"),
    Verdict("dead", reason="http_400"),
    Verdict("unknown", reason="timeout", may_have_arrived=True),
    Verdict("pending", reason="http_503"),
)


def documented(call: Call) -> set[tuple[int, str | None]]:
    """Statuses with codes that a call may answer with; no code where it succeeds."""
    codes = {*call.codes, *EVERYWHERE} - {"internal_error"}
    if call.may_be_purged:
        codes.add("purged")
    if "invalid_content" in codes:
        codes |= CONTENT_CODES.keys()
    if "{" in call.path:
        # What is not even a path of it.
        codes.add("not_found")
    refusals = {
        (REQUEST_CODES[code].status if code in REQUEST_CODES else 422, code) for code in codes
    }
    return refusals | {(status, None) for status in call.answers}


async def _fill(chance: Chance, queue: str, words: str) -> set[str]:
    """Something in most states; returns the ids that are in it."""
    service = chance.service
    before = {id_ for ids in chance.ids.values() for id_ in ids}
    for n in range(12):
        conversation = (f"{words}-{n % 3}", "ann", "ben", None)[n % 4]
        accepted = (
            await service.accept(f"k{n}", queue=queue, conversation=conversation, payload=words)
        ).json
        chance.ids["turns"].append(accepted["turn"])
        chance.ids["inbound"].append(accepted["id"])
    for verdict in VERDICTS:
        (turn,) = (await service.claim(queue=queue)).json["turns"]
        sealed = await service.seal(turn, [{"destination": "crm", "payload": words}] * 2)
        chance.ids["outbox"] += [one["id"] for one in sealed.json["messages"]]
        for taken in (await take(service.core.pool, [Slots("crm", 2, 30.0)])).messages:
            done = Settlement(taken.message, taken.attempt_id, verdict)
            await settle(service.core.pool, [done])
    for turn in (await service.claim(queue=queue, max_turns=3)).json["turns"]:
        chance.leases[turn["id"]] = turn["lease_token"]
    asked = {"verb": "cancel", "filter": {"state": "failed", "queue": queue}, "reason": words}
    begun = await service.post("/v1/turns/bulk", asked)
    chance.ids["operations"].append(begun.json["id"])
    return {id_ for ids in chance.ids.values() for id_ in ids} - before


def _shown(answer: Answer) -> set[str]:
    """The ids in an answer, and the words that only the other queue has."""
    return set(re.findall(r"\b(?:turn|msg|in|op)_\w{26}\b|" + FOREIGN, answer.body.decode()))


@pytest.mark.parametrize("seed", [1])
async def test_every_answer_is_documented_and_stays_behind_its_wall(
    service: Service, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    service.keys["tenant"] = await create_key(
        service.core.pool, name="tenant", scopes=["admin"], queues=["support"]
    )
    chance = Chance(service, random.Random(seed))
    await _fill(chance, "support", "own-words")
    foreign = {*await _fill(chance, "default", FOREIGN), FOREIGN}
    wrong: dict[str, str] = {}
    for _ in range(REQUESTS):
        call = chance.random.choice(CALLS)
        asked, scope, answer = await chance.send(call)
        code = answer.code if answer.status >= 300 else None
        if (answer.status, code) not in documented(call):
            wrong[f"{call.path} {answer.status} {code}"] = asked
        if scope in BOUND and (shown := _shown(answer) & foreign):
            wrong[f"{call.path} showed {shown} to {scope}"] = asked
    assert wrong == {}
    assert "request failed" not in caplog.text
