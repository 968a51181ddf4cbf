"""What a kind of source has to show for itself: samples as data, signed as its provider signs, and official vectors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import util
from pathlib import Path
from typing import Any

from app.domain.webhook import Batch, Keys, Reply, Request, Secrets
from app.providers import AnyProvider, discover

PROVIDERS = discover()
SAMPLES = Path(__file__).parent / "samples"
URL = "https://in.example/v1/sources/one"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What is to be read from one item: all of it, but for the bytes."""

    keys: tuple[str, ...]
    event: str = ""
    conversation: tuple[str, ...] = ()
    text: str = ""
    sender: str = ""
    attachments: int = 0
    body: bytes | None = None
    reply: Mapping[str, str] | None = None
    dated: datetime | None = None
    is_echo: bool = False


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One request as its provider sends it. Without `items` it is a handshake, or holds nothing to keep."""

    name: str
    body: bytes
    content_type: str = "application/json"
    method: str = "POST"
    url: str = URL
    headers: Mapping[str, str] = field(default_factory=dict)
    items: tuple[Expected, ...] = ()
    ignored: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    reply: Reply | None = None

    @property
    def request(self) -> Request:
        """The request before it is signed."""
        headers = {"content-type": self.content_type, **self.headers}
        return Request(method=self.method, public_url=self.url, headers=headers, body=self.body)


@dataclass(frozen=True, kw_only=True)
class Vector:
    """A request that the provider itself published, with what it was signed with and when."""

    name: str
    source: str
    request: Request
    secrets: Secrets
    now: datetime
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One configuration of a kind.

    `sign` makes a request what the provider would send at `now` with the first of the active secrets. `other` are
    secrets of the same form that nothing is signed with. `tampered` are requests with something changed that the kind
    declares signed by the names of fields.
    """

    sign: Callable[[Request, Secrets, datetime], Request]
    secrets: Secrets
    other: Secrets
    now: datetime
    samples: tuple[Sample, ...]
    options: Mapping[str, object] = field(default_factory=dict)
    keys: Keys | None = None
    vectors: tuple[Vector, ...] = ()
    tampered: Mapping[str, Callable[[Request], Request]] = field(default_factory=dict)

    def signed(self, sample: Sample) -> Request:
        """The sample as it comes."""
        return self.sign(sample.request, self.secrets, self.now)

    def receive(
        self,
        provider: AnyProvider,
        request: Request,
        *,
        secrets: Secrets | None = None,
        now: datetime | None = None,
    ) -> Batch | Reply:
        """Hand a request to the kind."""
        return provider.receive(
            request,
            config=config_of(provider, self.options),
            secrets=self.secrets if secrets is None else secrets,
            keys=self.keys,
            now=self.now if now is None else now,
        )


def config_of(provider: AnyProvider, options: Mapping[str, object]) -> Any:
    """The kind's own configuration."""
    return provider.Config.model_validate(dict(options))


def cases_of(kind: str) -> tuple[Case, ...]:
    """The cases of a kind, from its file of samples; a kind without one is told where to add it."""
    path = SAMPLES / f"{kind}.py"
    assert path.is_file(), f"the kind {kind!r} has no samples: add {path} with CASES"
    spec = util.spec_from_file_location(f"tests.providers.samples.{kind}", path)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cases: tuple[Case, ...] = module.CASES
    return cases


def with_headers(request: Request, **headers: str) -> Request:
    """A request with more headers; an underscore in a name stands for a hyphen."""
    added = {name.replace("_", "-"): value for name, value in headers.items()}
    return replace(request, headers={**request.headers, **added})
