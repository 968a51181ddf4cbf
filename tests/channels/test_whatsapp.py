"""Whom a message goes to, and messages that are no text."""

import json

import pytest

from app.channels import Draft, Reply
from app.channels.whatsapp import WhatsappConfig, channel
from app.domain.outcome import Delivered
from tests.channels.conformance.attempts import wired
from tests.channels.conformance.fakes import Said, http_fake
from tests.channels.conformance.sample import load, outgoing
from tests.channels.conformance.samples.whatsapp import KEY, OURS, THEIRS

OTHERS, USER = "206540352242922", "US.13491208655302741918"
GROUP = "Y2FwaV9ncm91cDoxNzA1NTU1MDEzOToxMjAzNjM0MDQ2OTQyMzM4MjAZD"


def draft(payload: object, recipient: str | None = None) -> Draft:
    body = json.dumps(payload).encode()
    return Draft(
        destination="d", recipient=recipient, headers={}, content_type="application/json", body=body
    )


async def sent(proposed: Draft, *, reply: Reply | None, number: str | None = OTHERS) -> Said:
    async with http_fake(load("whatsapp").good) as fake, wired() as wire:
        options = {"token": "env:T", "phone_number_id": number}
        config = WhatsappConfig.model_validate(
            {**options, "api_url": f"http://127.0.0.1:{fake.port}"}
        )
        address = channel.check(proposed, reply=reply, config=config)
        message = outgoing(proposed, address.parts)
        outcome = await channel.send(message, config=config, secrets=[b"token"], wire=wire)
        assert isinstance(outcome, Delivered)
        [one] = fake.requests
    return one


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        (THEIRS, {"recipient_type": "individual", "to": THEIRS}),
        (USER, {"recipient_type": "individual", "recipient": USER}),
        (GROUP, {"recipient_type": "group", "to": GROUP}),
    ],
)
async def test_an_answer_comes_from_the_number_that_was_written_to(
    theirs: str, said: dict[str, str]
) -> None:
    one = await sent(draft("Hello"), reply=Reply(kind="whatsapp", parts=(OURS, theirs)))
    assert one.path == f"/{OURS}/messages"
    assert one.json == {
        "messaging_product": "whatsapp",
        **said,
        "type": "text",
        "text": {"body": "Hello"},
        "biz_opaque_callback_data": KEY,
    }


async def test_another_recipient_is_written_to_from_the_configured_number() -> None:
    answered = Reply(kind="whatsapp", parts=(OURS, THEIRS))
    one = await sent(draft("Hello", "+16505550000"), reply=answered)
    assert one.path == f"/{OTHERS}/messages"
    assert isinstance(one.json, dict)
    assert one.json["to"] == "+16505550000"


async def test_a_template_and_the_message_that_is_answered_go_as_they_are() -> None:
    template = {"name": "hello_world", "language": {"code": "en_US"}}
    payload = {"type": "template", "template": template, "context": {"message_id": "wamid.1"}}
    one = await sent(draft(payload, THEIRS), reply=None)
    assert isinstance(one.json, dict)
    said = {name: one.json[name] for name in ("type", "template", "context")}
    assert said == payload
    assert "text" not in one.json
