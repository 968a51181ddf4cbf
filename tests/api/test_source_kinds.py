"""Kinds of sources that batch, shake hands or want an answer of their own, through the whole service."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from yarl import URL as Spelled  # noqa: N811 - another URL than that of the samples

from app.domain.webhook import Request, Secrets
from app.settings import Server, Source
from tests.api.conftest import EMPTY, Answer, Service, opened
from tests.database import Clock
from tests.engine.invariants import broken
from tests.providers.cases import URL, Case, Sample, cases_of

if TYPE_CHECKING:
    from tests.database import Admin

TOKEN = b"told-once"
KINDS = ("discord", "github", "intercom", "twilio", "whatsapp")
CASES: Mapping[str, Case] = {kind: cases_of(kind)[0] for kind in KINDS}
SECRET = b"one-signing-secret"


@dataclass(slots=True)
class Kinds:
    """A service with a source of each kind, and what signs for them."""

    service: Service

    async def send(self, request: Request, *, method: str | None = None) -> Answer:
        path = request.public_url.removeprefix("https://in.example")
        headers = dict(request.headers)
        return await self.service.call(
            method or request.method, path, scope=None, body=request.body, headers=headers
        )

    async def sign(self, kind: str, sample: Sample, *, body: bytes | None = None) -> Answer:
        """Send a sample, or another body in its place, as its provider does."""
        case = CASES[kind]
        # Spelled as the client of the test will.
        url = str(Spelled(sample.url.replace("/sources/one", f"/sources/{kind}")))
        request = replace(
            sample.request, public_url=url, body=sample.body if body is None else body
        )
        return await self.send(case.sign(request, Secrets((SECRET,)), case.now))

    async def inbound(self) -> list[dict[str, Any]]:
        turns = (await self.service.claim(max_turns=50)).json["turns"]
        return [one for turn in turns for one in turn["inbound"]]

    async def view(self) -> dict[str, object]:
        (inbound,) = await self.inbound()
        view: dict[str, object] = inbound["view"]
        return view


@pytest.fixture(scope="session")
async def with_kinds(
    database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Kinds]:
    folder: Path = tmp_path_factory.mktemp("secrets")
    (folder / "one").write_bytes(SECRET)
    (folder / "token").write_bytes(TOKEN)
    given: dict[str, dict[str, Any]] = {
        kind: {"kind": kind, "secrets": (f"file:{folder}/one",)} for kind in KINDS
    }
    given["whatsapp"] |= {"verify_tokens": [f"file:{folder}/token"]}
    given["discord"] = {"kind": "discord", **CASES["discord"].options}
    own = {kind: Source.model_validate(told) for kind, told in given.items()}
    server = Server(public_url="https://in.example")
    async with opened(database_url, sources=own, server=server) as running:
        yield Kinds(running)


@pytest.fixture
async def kinds(with_kinds: Kinds, admin: "Admin") -> AsyncIterator[Kinds]:
    await admin.execute(EMPTY)
    await Clock(admin).travel(0)
    yield with_kinds
    assert await broken(admin) == {}


def sample_of(kind: str, name: str) -> Sample:
    (found,) = [one for one in CASES[kind].samples if one.name == name]
    return found


async def test_a_batch_is_one_inbound_an_item_however_it_is_cut_when_it_comes_again(
    kinds: Kinds, admin: "Admin"
) -> None:
    batch = sample_of("whatsapp", "messages-and-statuses-in-one-request")
    assert (await kinds.sign("whatsapp", batch)).status == 200
    whole = json.loads(batch.body)
    for change in whole["entry"][0]["changes"]:
        alone = {**whole, "entry": [{**whole["entry"][0], "changes": [change]}]}
        assert (await kinds.sign("whatsapp", batch, body=json.dumps(alone).encode())).status == 200
    assert await admin.fetchval("select count(*) from sink.inbound") == len(batch.items)
    # The others wait for their turn in the same conversation.
    (found,) = await kinds.inbound()
    assert found["payload"] == whole["entry"][0]["changes"][0]["value"]["messages"][0]


async def test_the_handshake_says_its_challenge_and_keeps_nothing(kinds: Kinds) -> None:
    url = URL.replace("one", "whatsapp") + "?hub.mode=subscribe&hub.challenge=42&hub.verify_token="
    request = Request(method="GET", public_url=url + TOKEN.decode(), headers={}, body=b"")
    answer = await kinds.send(request)
    assert (answer.status, answer.body) == (200, b"42")
    assert (await kinds.send(replace(request, public_url=url + "wrong"))).status == 401
    assert await kinds.inbound() == []


@pytest.mark.parametrize("name", ["a-text", "a-text-by-get"])
async def test_twilio_is_told_to_say_nothing_and_its_text_is_kept(kinds: Kinds, name: str) -> None:
    for _ in range(2):
        answer = await kinds.sign("twilio", sample_of("twilio", name))
        assert answer.status == 200
        assert answer.body.endswith(b"<Response/>")
        assert answer.headers["content-type"].startswith("text/xml")
    assert (await kinds.view())["conversation"] == "twilio:+15550199/+15550100"


async def test_what_marks_the_tries_of_twilio_is_kept_and_decides_nothing(kinds: Kinds) -> None:
    sample = sample_of("twilio", "a-text")
    marked = replace(sample, headers={**sample.headers, "i-twilio-idempotency-token": "try-1"})
    assert (await kinds.sign("twilio", marked)).status == 200
    (inbound,) = await kinds.inbound()
    assert inbound["headers"] == {"i-twilio-idempotency-token": "try-1"}


async def test_an_interaction_is_answered_at_once_and_its_token_is_not_shown(kinds: Kinds) -> None:
    for _ in range(2):
        answer = await kinds.sign("discord", sample_of("discord", "a-command"))
        assert (answer.status, answer.body) == (200, b'{"type":5}')
    (inbound,) = await kinds.inbound()
    assert "aW50ZXJhY3Rpb246" not in json.dumps(inbound)
    assert (await kinds.sign("discord", sample_of("discord", "a-ping"))).body == b'{"type":1}'
    told = await kinds.sign("discord", sample_of("discord", "a-ping-of-events"))
    assert (told.status, told.body) == (204, b"")


async def test_a_form_of_github_and_a_look_of_intercom_are_taken(kinds: Kinds) -> None:
    assert (await kinds.sign("github", sample_of("github", "the-same-as-a-form"))).status == 200
    look = Request(method="HEAD", public_url=URL.replace("one", "intercom"), headers={}, body=b"")
    assert (await kinds.send(look)).status == 200
    assert (await kinds.view())["conversation"] == "github:octo%2F;hello/5"
