"""Answers through a reply token, which the sample of pushes does not show."""

import pytest

from app.channels import Draft, Reply
from app.channels.line import LineConfig, channel
from app.domain.outcome import Delivered, Outcome, RetryLater
from tests.channels.conformance.attempts import bare, wired
from tests.channels.conformance.fakes import HttpFake, answer, http_fake
from tests.channels.conformance.sample import outgoing
from tests.channels.conformance.samples.line import ID, USER

TOKEN = "nHuyWiB7yP5Zw52FIkcQobQuGDXCTA"
DRAFT = Draft(
    destination="d",
    recipient=None,
    headers={},
    content_type="application/json",
    body=b'{"text": "Hello, you", "notificationDisabled": true, "customAggregationUnits": ["a"]}',
)
ASKED = Reply(kind="line", parts=("user", USER), capability={"reply_token": TOKEN})
GOOD = answer(200, {"sentMessages": [{"id": ID}]})
SPENT = answer(400, {"message": "Invalid reply token"})


async def sent(fake: HttpFake, *, ended: bool = False) -> Outcome:
    options = {"token": "env:T", "answer_by": "reply_token"}
    config = LineConfig.model_validate({**options, "api_url": f"http://127.0.0.1:{fake.port}"})
    address = channel.check(DRAFT, reply=ASKED, config=config)
    assert address.uses_reply
    assert TOKEN not in repr(address)
    message = outgoing(DRAFT, address.parts, reply=None if ended else ASKED.capability)
    async with wired() as wire:
        return await channel.send(message, config=config, secrets=[b"token"], wire=wire)


async def test_an_answer_goes_through_the_token_and_has_no_key() -> None:
    async with http_fake(GOOD) as fake:
        assert bare(await sent(fake)) == Delivered(ID)
        [one] = fake.requests
    assert (one.method, one.path) == ("POST", "/v2/bot/message/reply")
    assert "x-line-retry-key" not in one.headers
    assert one.json == {
        "replyToken": TOKEN,
        "messages": [{"type": "text", "text": "Hello, you"}],
        "notificationDisabled": True,
    }


async def test_what_a_spent_token_does_not_take_is_pushed_under_a_key() -> None:
    async with http_fake(SPENT, GOOD) as fake:
        assert bare(await sent(fake)) == Delivered(ID)
        reply, push = fake.requests
    assert (reply.path, push.path) == ("/v2/bot/message/reply", "/v2/bot/message/push")
    assert push.headers["x-line-retry-key"]
    assert push.json == {
        "to": USER,
        "messages": [{"type": "text", "text": "Hello, you"}],
        "notificationDisabled": True,
        "customAggregationUnits": ["a"],
    }


async def test_after_the_tokens_minute_it_is_pushed_at_once() -> None:
    async with http_fake(GOOD) as fake:
        assert bare(await sent(fake, ended=True)) == Delivered(ID)
        assert [one.path for one in fake.requests] == ["/v2/bot/message/push"]


async def test_only_a_spent_token_is_a_reason_to_push() -> None:
    async with http_fake(answer(429, {"message": "The API rate limit has been exceeded"})) as fake:
        assert bare(await sent(fake)) == RetryLater("http_429", counted=False)
        assert len(fake.requests) == 1


@pytest.mark.parametrize("parts", [(), ("user",), ("user", "nobody"), ("user", USER + "0")])
def test_a_conversation_of_another_form_is_no_address(parts: tuple[str, ...]) -> None:
    config = LineConfig.model_validate({"token": "env:T", "to": USER})
    reply = Reply(kind="line", parts=parts)
    assert dict(channel.check(DRAFT, reply=reply, config=config).parts) == {"to": USER}
