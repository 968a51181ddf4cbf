"""Ids that a source brought go back as they came: only the provider knows their form."""

from typing import Any

import pytest

from app.channels import Draft, Outgoing, Reply
from app.domain.errors import InvalidContent
from app.domain.outcome import Delivered
from tests.channels.conformance.attempts import bare, wired
from tests.channels.conformance.fakes import http_fake
from tests.channels.conformance.sample import configured, load, outgoing

TEAM, GUILD = "T1", "G1"
# For each kind: what kind brought it, a conversation of odd ids, and what it is sent to.
ODD: dict[str, tuple[str, tuple[str, ...], dict[str, str]]] = {
    "slack": ("slack", (TEAM, "C1", "1.1"), {"channel": "C1", "thread_ts": "1.1"}),
    "telegram": ("telegram", ("7", "1", "bc"), {"chat_id": "7", "message_thread_id": "1"}),
    "twilio": ("twilio", ("MG1", "rcs:ann"), {"to": "rcs:ann", "service": "MG1"}),
    "whatsapp": ("whatsapp", ("PN1", "1555"), {"phone_number_id": "PN1", "to": "1555"}),
    "discord": ("discord", (GUILD, "c 1/2"), {"channel_id": "c 1/2"}),
    "line": ("line", ("user", "U1"), {"to": "U1"}),
    "teams": ("teams_bot", ("a:1",), {"conversation": "a:1"}),
}
HOSTILE = ("", ".", "..", " C1", "C1\n", "C1\x00", "C\u202e1", "\ud800", "C" * 256)


def draft_of(kind: str, to: str | None = None) -> Draft:
    return load(kind).draft(recipient=to)


def answering(kind: str, parts: tuple[str, ...], *, port: int = 1) -> tuple[Any, Any, Any]:
    sample = load(kind)
    channel, config = configured(kind, sample, port=port)
    reply = Reply(kind=ODD[kind][0], parts=parts)
    return channel, config, reply


@pytest.mark.parametrize("kind", sorted(ODD))
def test_an_id_of_an_odd_form_is_answered(kind: str) -> None:
    _, parts, expected = ODD[kind]
    channel, config, reply = answering(kind, parts)
    found = dict(channel.check(draft_of(kind), reply=reply, config=config).parts)
    assert expected.items() <= found.items()


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("kind", sorted(ODD))
def test_what_is_no_id_is_not_answered(kind: str, hostile: str) -> None:
    _, parts, expected = ODD[kind]
    place = next(iter(expected.values()))
    changed = tuple(hostile if part == place else part for part in parts)
    channel, config, reply = answering(kind, changed)
    with pytest.raises(InvalidContent) as refused:
        channel.check(draft_of(kind), reply=reply, config=config)
    assert [problem.pointer for problem in refused.value.problems] == ["/to"]


@pytest.mark.parametrize(
    ("kind", "parts", "path"),
    [
        ("discord", (GUILD, "c 1/2?"), "/api/v10/channels/c%201%2F2%3F/messages"),
        ("whatsapp", ("P/1?", "1555"), "/v25.0/P%2F1%3F/messages"),
    ],
)
async def test_an_id_leads_nowhere_else_in_a_path(
    kind: str, parts: tuple[str, ...], path: str
) -> None:
    sample = load(kind)
    async with http_fake(sample.good) as fake, wired() as wire:
        channel, config, reply = answering(kind, parts, port=fake.port)
        draft = draft_of(kind)
        message: Outgoing = outgoing(draft, channel.check(draft, reply=reply, config=config).parts)
        outcome = await channel.send(message, config=config, secrets=[b"token"], wire=wire)
        assert isinstance(bare(outcome), Delivered)
        [one] = fake.requests
    assert one.path == path


def test_an_answer_to_a_number_that_is_named_comes_from_the_one_that_was_written_to() -> None:
    channel, config, _ = answering("twilio", ())
    reply = Reply(kind="twilio", parts=("+15550100", "+15550199"))
    config = config.model_copy(update={"from_": None})
    found = channel.check(draft_of("twilio", "+15550199"), reply=reply, config=config)
    assert dict(found.parts) == {"to": "+15550199", "from": "+15550100"}


def test_the_repository_of_a_managed_user_is_answered() -> None:
    channel, config = configured("github", load("github"), port=1)
    reply = Reply(kind="github", parts=("ann_acme/tool", "12"))
    found = channel.check(load("github").draft(), reply=reply, config=config)
    assert dict(found.parts) == {"repository": "ann_acme/tool", "number": "12"}
