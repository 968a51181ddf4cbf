"""Name servers under the control of a test."""

import asyncio
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address


class Names:
    """A name server under the test's control: each look-up takes the next answer, the last one for
    ever.
    """

    def __init__(self, *answers: Sequence[str] | OSError) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def __call__(self, host: str, *, port: int) -> Sequence[IPv4Address | IPv6Address]:
        answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
        assert port > 0
        self.asked.append(host)
        if isinstance(answer, OSError):
            raise answer
        return [ip_address(address) for address in answer]


class StalledNames:
    """A name server that never answers."""

    async def __call__(self, host: str, *, port: int) -> Sequence[IPv4Address]:
        await asyncio.sleep(60)
        raise OSError(host, port)
