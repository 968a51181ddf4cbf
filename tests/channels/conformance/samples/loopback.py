"""The store of this installation: nothing leaves it."""

from typing import Any

from tests.channels.conformance.sample import Sample


def sent(requests: Any) -> None:
    assert requests == []


SAMPLE = Sample(
    config={},
    sent=sent,
    good=b"",
    receipt="loopback:1",
    key=None,
    refused=(({"headers": {"X-A": "1\r\nB: 2"}}, "/headers/X-A", "header_value_invalid"),),
    offline=True,
    more={"status_decides": True},
)
