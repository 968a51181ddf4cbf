"""Whatever kind of source there is: no body does harm, however well it is signed."""

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from app.domain.webhook import Batch, Refused, Result
from tests.providers.cases import PROVIDERS, Case, Sample
from tests.providers.kinds import each_sample

FLIPS = 24


@each_sample
def test_no_body_does_harm_however_well_it_is_signed(kind: str, case: Case, sample: Sample) -> None:
    provider = PROVIDERS[kind]
    for body in _hostile(sample.body):
        request = case.sign(replace(sample.request, body=body), case.secrets, case.now)
        try:
            read = case.receive(provider, request)
        except Refused as refused:
            assert refused.result in Result  # noqa: PT017
            assert refused.reason.isascii()  # noqa: PT017
            continue
        if isinstance(read, Batch):
            _can_be_kept(read)


def _can_be_kept(read: Batch) -> None:
    for item in read.items:
        assert item.keys
        assert all(item.keys)
        assert isinstance(item.body, bytes)
        texts = (*item.keys, item.event, *item.conversation, item.view.text, item.view.sender)
        for text in texts:
            assert isinstance(text, str)
            text.encode()
        for one in item.view.attachments:
            for text in (one.kind, one.id, one.url, one.name, one.content_type):
                assert isinstance(text, str)
                text.encode()
        assert item.dated is None or item.dated.tzinfo is not None


_VALUES: tuple[object, ...] = (
    None,
    True,
    0,
    -1,
    1e400,
    10**30,
    "",
    "\x00",
    "x" * 2000,
    "\ud800",
    float("nan"),
    [],
    [[]],
    {},
    {"id": 1},
)


def _hostile(body: bytes) -> Iterator[bytes]:
    """Cut short, not UTF-8, not JSON, too deep, and with each member replaced by what it should not be."""
    for n in range(0, len(body), max(1, len(body) // FLIPS)):
        yield body[:n]
        yield body[:n] + b"\xff" + body[n + 1 :]
    yield from (
        b"",
        b"null",
        b"[]",
        b"{}",
        b'"',
        b"NaN",
        b"\xef\xbb\xbf{}",
        b"\x00",
        b"&&==&%",
        b"%ff=%ff",
    )
    yield b"[" * 2000
    yield b'{"a":' * 100_000
    yield b"1" * 5000
    yield b'{"id":"\\ud800"}'
    yield b"payload=" + b"%5B" * 1000
    try:
        value = json.loads(body)
    except ValueError:
        yield from _spoiled_form(body)
        return
    for spoiled in _spoiled(value):
        yield json.dumps(spoiled).encode()
    if isinstance(value, dict) and value:
        # Every name twice, the second time with something else.
        nothing = dict.fromkeys(value)
        for first, second in ((nothing, value), (value, nothing)):
            yield json.dumps(first)[:-1].encode() + b"," + json.dumps(second)[1:].encode()


def _spoiled_form(body: bytes) -> Iterator[bytes]:
    """Each field left out, empty, twice, and with what no text is."""
    fields = body.split(b"&")
    for n, field in enumerate(fields):
        name = field.partition(b"=")[0]
        for other in (
            b"",
            name,
            name + b"=",
            field + b"&" + name + b"=1",
            name + b"=%ff%00%ED%A0%80",
        ):
            yield b"&".join((*fields[:n], other, *fields[n + 1 :]))


def _spoiled(value: object) -> Iterator[object]:
    for path in _paths(value):
        for other in _VALUES:
            changed = copy.deepcopy(value)
            here: Any = changed
            for part in path[:-1]:
                here = here[part]
            if path:
                here[path[-1]] = other
                yield changed


def _paths(value: object, *above: Any) -> Iterator[tuple[Any, ...]]:
    yield above
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, below in inside:
        yield from _paths(below, *above, name)
