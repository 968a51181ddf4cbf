"""Mail, rooms and bots through the whole service: unsigned bodies, regrouped batches, answers in the response."""

import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.domain.webhook import Request
from app.settings import Server, Source
from tests.api.conftest import EMPTY, Answer, Service, opened
from tests.database import Clock
from tests.engine.invariants import broken
from tests.providers.cases import URL, Case, cases_of, with_headers
from tests.providers.samples.mailgun import SIGNATURE, TIME
from tests.providers.samples.teams_bot import token

if TYPE_CHECKING:
    from tests.database import Admin

KINDS = ("line", "mailgun", "postmark", "sendgrid", "teams", "teams_bot", "zendesk", "zoom")
CASES: Mapping[str, Case] = {kind: cases_of(kind)[0] for kind in KINDS}


def now() -> datetime:
    return datetime.fromtimestamp(int(time.time()), UTC)  # noqa: TID251 - as a provider's clock


@dataclass(slots=True)
class Kinds:
    """A service with a source of each kind, and what signs for them, at one moment in a test."""

    service: Service
    moment: datetime

    async def send(self, request: Request) -> Answer:
        return await self.service.call(
            request.method,
            request.public_url.removeprefix("https://in.example"),
            scope=None,
            body=request.body,
            headers=dict(request.headers),
        )

    def signed(self, kind: str, name: str, *, body: bytes | None = None) -> Request:
        """A sample that is sent now, or another body in its place."""
        case = CASES[kind]
        (sample,) = [one for one in case.samples if one.name == name]
        request = replace(sample.request, public_url=URL.replace("/one", f"/{kind}"))
        told = sample.body if body is None else body
        if kind == "mailgun":
            # Its samples hold their signature.
            told = re.sub(rb"[0-9a-f]{64}", SIGNATURE.encode(), told)
        seconds = str(int(self.moment.timestamp()))
        shown = (TIME if kind == "mailgun" else seconds).encode()
        return case.sign(
            replace(request, body=told.replace(b"1796040000", shown)), case.secrets, self.moment
        )

    async def sent(self, kind: str, name: str, *, body: bytes | None = None) -> Answer:
        return await self.send(self.signed(kind, name, body=body))

    async def inbound(self) -> list[dict[str, Any]]:
        turns = (await self.service.claim(max_turns=50)).json["turns"]
        return [one for turn in turns for one in turn["inbound"]]

    def counted(self, source: str, result: str) -> float:
        registry = self.service.core.metrics.registry
        labels = {"source": source, "result": result}
        return registry.get_sample_value("sinksweep_source_items_total", labels) or 0.0


def pointers(folder: Path, name: str, secrets: tuple[bytes, ...]) -> tuple[str, ...]:
    paths = [folder / f"{name}{n}" for n in range(len(secrets))]
    for path, secret in zip(paths, secrets, strict=True):
        path.write_bytes(secret)
    return tuple(f"file:{path}" for path in paths)


@pytest.fixture(scope="session")
async def with_kinds(
    database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Kinds]:
    folder = tmp_path_factory.mktemp("secrets")
    own = {
        kind: Source.model_validate(
            {
                "kind": kind,
                "secrets": pointers(folder, kind, case.secrets.active),
                **case.options,
                # Nobody outside is asked for keys.
                **({"metadata_url": "https://login.invalid/"} if kind == "teams_bot" else {}),
            }
        )
        for kind, case in CASES.items()
    }
    server = Server(public_url="https://in.example")
    async with opened(database_url, sources=own, server=server) as running:
        yield Kinds(running, now())


@pytest.fixture
async def kinds(with_kinds: Kinds, admin: "Admin") -> AsyncIterator[Kinds]:
    await admin.execute(EMPTY)
    await Clock(admin).travel(0)
    with_kinds.moment = now()
    yield with_kinds
    assert await broken(admin) == {}


async def test_mail_without_a_signature_is_taken_by_its_secret_alone(
    kinds: Kinds, admin: "Admin"
) -> None:
    good = kinds.signed("postmark", "an-answer")
    for wrong in ("", "Basic eDp5", "Bearer x"):
        answer = await kinds.send(with_headers(good, authorization=wrong))
        assert (answer.status, answer.json["code"]) == (401, "signature_invalid")
    for _ in range(2):
        assert (await kinds.send(good)).status == 200
    (inbound,) = await kinds.inbound()
    assert inbound["view"]["text"] == "a red one?"
    assert inbound["view"]["attachments"] == [
        {"kind": "file", "name": "a.png", "content_type": "image/png"}
    ]
    reply = json.loads(await admin.fetchval("select convert_from(reply, 'UTF8') from sink.inbound"))
    assert reply["to"] == "ada@acme.example"
    secret = good.headers["authorization"]
    assert secret not in str(await admin.fetch("select * from sink.inbound"))


async def test_mail_of_our_own_and_bounces_are_told_apart(kinds: Kinds) -> None:
    assert (await kinds.sent("postmark", "our-own")).status == 200
    assert await kinds.inbound() == []
    assert (await kinds.sent("postmark", "a-delivery")).status == 200


async def test_a_token_of_mailgun_is_good_for_one_request(kinds: Kinds) -> None:
    good = kinds.signed("mailgun", "a-mail")
    assert (await kinds.send(good)).status == 200
    forged = replace(good, body=good.body.replace(b"third%40acme.example", b"new%40acme.example"))
    assert forged.body != good.body
    for request in (good, forged):
        assert (await kinds.send(request)).status == 200
    (inbound,) = await kinds.inbound()
    assert inbound["view"]["conversation"] == "mailgun:help@mg.ours.example/first@acme.example"


async def test_mail_in_parts_is_kept_as_it_came_whatever_bytes_it_holds(
    kinds: Kinds, admin: "Admin"
) -> None:
    for _ in range(2):
        assert (await kinds.sent("sendgrid", "a-mail")).status == 200
    kept = await admin.fetchrow("select * from sink.inbound")
    assert kept is not None
    (inbound,) = await kinds.inbound()
    assert inbound["view"]["text"] == "Grüße, a red one?"
    assert kinds.counted("sendgrid", "differing") == 0


async def test_an_array_is_one_inbound_an_event(kinds: Kinds, admin: "Admin") -> None:
    for _ in range(2):
        assert (await kinds.sent("sendgrid", "events")).status == 200
    assert await admin.fetchval("select count(*) from sink.inbound") == 2
    assert (await kinds.sent("sendgrid", "no-events")).status == 200


async def test_events_of_line_are_kept_once_however_they_are_grouped(
    kinds: Kinds, admin: "Admin"
) -> None:
    differing = kinds.counted("line", "differing")
    for name in ("three-at-once", "one-of-them-again", "three-at-once", "the-console-looks"):
        assert (await kinds.sent("line", name)).status == 200
    assert await admin.fetchval("select count(*) from sink.inbound") == 3
    assert kinds.counted("line", "differing") == differing
    shown = json.dumps(await kinds.inbound())
    assert "b60d432864f44d079f6d8efe86cf404b" not in shown


async def test_who_mentions_an_outgoing_webhook_is_answered_at_once(kinds: Kinds) -> None:
    for _ in range(2):
        answer = await kinds.sent("teams", "a-mention")
        assert answer.status == 200
        assert answer.json == {"type": "message", "text": "Your message was received."}
    (inbound,) = await kinds.inbound()
    thread = "teams:19:abc@thread.skype;messageid="
    assert inbound["view"]["conversation"].startswith(thread)


async def test_a_bot_is_ready_with_its_keys_and_asks_for_those_that_it_does_not_know(
    kinds: Kinds, admin: "Admin"
) -> None:
    fetched = kinds.service.core.fetched
    good = kinds.signed("teams_bot", "a-message")
    fetched.by_source.pop("teams_bot", None)
    answer = await kinds.send(good)
    assert (answer.status, answer.json["code"]) == (503, "source_not_ready")
    assert int(answer.headers["retry-after"]) > 0
    keys = CASES["teams_bot"].keys
    assert keys is not None
    fetched.by_source["teams_bot"] = keys
    unknown = with_headers(good, authorization=f"Bearer {token(kinds.moment, kid='k9')}")
    assert (await kinds.send(unknown)).status == 503
    assert "teams_bot" in fetched.wanted
    for _ in range(2):
        assert (await kinds.send(good)).status == 200
    answer = await kinds.sent("teams_bot", "what-is-invoked")
    assert (answer.status, answer.body) == (200, b"{}")
    assert (await kinds.sent("teams_bot", "what-we-said")).status == 200
    # The message and what was invoked; not what we said.
    assert await admin.fetchval("select count(*) from sink.inbound") == 2


async def test_the_question_of_zoom_is_answered_and_not_kept(kinds: Kinds) -> None:
    answer = await kinds.sent("zoom", "the-question-for-the-url")
    assert answer.json["encryptedToken"].startswith("82079ed6")
    assert (await kinds.sent("zoom", "a-meeting")).status == 200
    assert len(await kinds.inbound()) == 1


@pytest.mark.parametrize("name", ["a-comment", "a-trigger", "a-trigger-s-form", "a-trigger-s-xml"])
async def test_zendesk_is_taken_in_every_format(kinds: Kinds, name: str) -> None:
    case = CASES["zendesk"]
    (sample,) = [one for one in case.samples if one.name == name]
    body = sample.body.replace(b"2026-11-30T11:59:59", kinds.moment.isoformat()[:19].encode())
    for _ in range(2):
        assert (await kinds.sent("zendesk", name, body=body)).status == 200
    assert len(await kinds.inbound()) == 1
