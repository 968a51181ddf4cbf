"""What a kind of channel is tried with: one file a kind under `samples/`, found by being there."""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.channels import AnyChannel, Draft, Outgoing, Reply, discover
from app.domain.outcome import NotThere, Outcome, RetryLater, Shut

CHANNELS = discover()
SAMPLES = Path(__file__).parent / "samples"
SEALED_AT = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)
# Stands for every secret, so that no outcome may hold it. Of a form that every kind of secret may have.
CANARY = "7351892:c4n4ry-c4n4ry-c4n4ry"


@dataclass(frozen=True, slots=True)
class Case:
    """One answer of a provider, and the outcome that it means: `answer` of the outcome is not compared."""

    name: str
    answer: bytes
    outcome: Outcome | NotThere


def shut(reason: str) -> RetryLater:
    """What every message is told, until a person has changed something."""
    return RetryLater(reason, counted=False, shut=Shut.UNAUTHORIZED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """`config` and `secret` may hold `{port}`, where the stand-in listens.

    `sent` asserts on the requests of one good attempt that they are as the provider documents them, and `key` reads our
    key out of them, or is None where the provider has no place for it. `good` is the provider's answer to a good one.
    `refused` are changes of the draft that can never be sent, with pointer and code. `fake` opens another stand-in than
    the one for HTTP; `hostile` are answers that only it can give.
    """

    config: Mapping[str, object]
    sent: Callable[[Any], None]
    good: bytes
    receipt: str | None
    key: Callable[[Any], str] | None
    payload: object = field(default_factory=lambda: {"text": "Hello, you"})
    to: str | None = None
    reply: Reply | None = None
    secret: str = CANARY
    refused: tuple[tuple[dict[str, Any], str, str], ...] = ()
    cases: tuple[Case, ...] = ()
    fake: Callable[..., AbstractAsyncContextManager[Any]] | None = None
    hostile: tuple[bytes, ...] = ()
    # What is asked when it is not known what became of an attempt: answers, and what they mean.
    lookups: tuple[Case, ...] = ()
    # The answer of a look at the destination, and words of what is said then.
    probes: tuple[tuple[bytes, bool, str], ...] = ()
    offline: bool = False
    more: Mapping[str, object] = field(default_factory=dict)

    def draft(self, **changes: Any) -> Draft:
        """The good draft, with changes; `payload` is its JSON."""
        payload = changes.pop("payload", self.payload)
        plain = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        draft = Draft(
            destination="d",
            recipient=self.to,
            headers={},
            content_type="application/json",
            body=plain,
        )
        return replace(draft, **changes)


def load(kind: str) -> Sample:
    """The sample of a kind; fails with the path of the file that is missing."""
    name = f"tests.channels.conformance.samples.{kind}"
    path = SAMPLES / f"{kind}.py"
    assert path.exists(), f"a channel needs a sample: add {path}"
    assert find_spec(name) is not None
    sample: Sample = import_module(name).SAMPLE
    return sample


def kinds_where(applies: Callable[[Sample], bool]) -> list[str]:
    """The kinds to whose samples it applies; one without a sample is told of by its own test."""
    there = [kind for kind in sorted(CHANNELS) if (SAMPLES / f"{kind}.py").exists()]
    return [kind for kind in there if applies(load(kind))]


def configured(kind: str, sample: Sample, *, port: int) -> tuple[AnyChannel, Any]:
    """The channel, and its configuration with the stand-in in it."""
    text = json.dumps(dict(sample.config)).replace("{port}", str(port))
    text = text.replace('"{number}"', str(port))
    channel = CHANNELS[kind]
    return channel, channel.Config.model_validate(json.loads(text))


def outgoing(draft: Draft, address: Mapping[str, str], **changes: Any) -> Outgoing:
    """A sealed message and its first attempt, with changes."""
    message = Outgoing(
        id="msg_01m8mm0q26eqsr3g96xejx5fy8",
        key="msg_01m8mm0q26eqsr3g96xejx5fy8",
        destination=draft.destination,
        queue="default",
        conversation=None,
        recipient=draft.recipient,
        headers=draft.headers,
        content_type=draft.content_type,
        body=draft.body,
        sealed_at=SEALED_AT,
        expires_at=None,
        attempt=1,
        attempted_at=SEALED_AT,
        first_attempted_at=SEALED_AT,
        address=address,
    )
    return replace(message, **changes)
