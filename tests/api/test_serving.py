"""What a test leaves behind when it breaks: nothing that keeps the server of the next one from hearing."""

import pytest

from tests.api.conftest import opened
from tests.database import Server


class Broken(Exception):
    """What a test raises that finds something wrong."""


async def _break(url: str) -> None:
    async with opened(url) as service:
        assert (await service.accept("k1")).status == 202
        raise Broken


async def test_a_test_that_breaks_leaves_the_next_server_able_to_hear(postgres: Server) -> None:
    async with postgres.database() as url:
        with pytest.raises(ExceptionGroup) as raised:
            await _break(url)
        assert raised.group_contains(Broken)
        # The loop of the session lives on, and would watch for ever whatever was not taken from it.
        async with opened(url) as service:
            headers = {"Idempotency-Key": "k2"}
            answer = await service.call(
                "POST", "/v1/inbound", json_body={"payload": 1}, headers=headers, seconds_max=5.0
            )
            assert answer.status == 202
