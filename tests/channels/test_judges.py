"""What the vendors' own clients would have sent: same method, path, credential and fields as ours."""

import asyncio
import json
import warnings
from typing import Any

from slack_sdk import WebClient
from twilio.http import HttpClient  # type: ignore[import-untyped]
from twilio.http.response import Response  # type: ignore[import-untyped]
from twilio.rest import Client  # type: ignore[import-untyped]

from tests.channels.conformance.attempts import addressed, secrets_of, wired
from tests.channels.conformance.fakes import HttpFake, Said, answer, http_fake
from tests.channels.conformance.sample import CANARY, load
from tests.channels.conformance.samples import twilio as twilio_sample

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from telegram import Bot


async def ours(kind: str, fake: HttpFake) -> Said:
    """The request of a good attempt."""
    sample = load(kind)
    channel, config, message = addressed(kind, sample, port=fake.port)
    secrets = secrets_of(channel, config, sample, port=fake.port)
    async with wired() as wire:
        await channel.send(message, config=config, secrets=secrets, wire=wire)
    return fake.requests[-1]


async def test_slacks_own_client_sends_the_same() -> None:
    async with http_fake(load("slack").good) as fake:
        mine = await ours("slack", fake)
        client = WebClient(token=CANARY, base_url=f"http://127.0.0.1:{fake.port}/api/")
        said = json.loads(mine.body)
        await asyncio.to_thread(lambda: client.chat_postMessage(**said))
        theirs = fake.requests[-1]
    assert (mine.method, mine.path) == (theirs.method, theirs.path)
    assert mine.headers["authorization"] == theirs.headers["authorization"]
    assert said == json.loads(theirs.body)


async def test_telegrams_python_client_sends_the_same() -> None:
    good = {"message_id": 42, "date": 1, "chat": {"id": -1001234, "type": "supergroup"}}
    async with http_fake(answer(200, {"ok": True, "result": good})) as fake:
        mine = await ours("telegram", fake)
        bot = Bot(CANARY, base_url=f"http://127.0.0.1:{fake.port}/bot")
        async with bot.request:
            sent = await bot.send_message(-1001234, "Hello, you", message_thread_id=17)
        theirs = fake.requests[-1]
    assert sent.message_id == 42
    assert (mine.method, mine.path) == (theirs.method, theirs.path)
    fields = {name: str(value) for name, value in json.loads(mine.body).items()}
    assert fields == theirs.form


class Kept(HttpClient):  # type: ignore[misc]
    """Twilio's client writes its requests down here."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    def request(self, method: str, url: str, **asked: Any) -> Response:
        self.asked = {"method": method, "url": url, **asked}
        return Response(201, json.dumps({"sid": twilio_sample.SID}))


async def test_twilios_own_client_sends_the_same() -> None:
    async with http_fake(load("twilio").good) as fake:
        mine = await ours("twilio", fake)
    kept = Kept()
    client = Client(twilio_sample.ACCOUNT, CANARY, http_client=kept)
    client.messages.create(to=twilio_sample.THEIRS, from_=twilio_sample.OURS, body="Hello, you")
    assert kept.asked["method"] == mine.method
    assert kept.asked["url"] == f"https://api.twilio.com{mine.path}"
    assert kept.asked["data"] == mine.form
    assert kept.asked["headers"]["Content-Type"] == mine.headers["content-type"]
