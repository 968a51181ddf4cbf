"""The command line against a running service: what it prints, and how it ends."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from app.__main__ import main
from tests.api.conftest import Service, opened
from tests.database import Server

Said = tuple[int, str, str]
Command = Callable[..., Coroutine[Any, Any, Said]]


@pytest.fixture(scope="session")
async def running(postgres: Server) -> AsyncIterator[Service]:
    """One service for all tests of this folder."""
    async with postgres.database() as url, opened(url) as service:
        yield service


@pytest.fixture
def command(
    running: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs `sinksweep` with these words: its exit status, and what it said on both streams."""
    monkeypatch.setenv("SINKSWEEP_URL", running.url)
    monkeypatch.setenv("SINKSWEEP_KEY", running.keys["admin"])

    async def run(*words: str) -> Said:
        capsys.readouterr()
        try:
            # In a thread: it runs a loop of its own.
            status = await asyncio.to_thread(main, words)
        except SystemExit as ended:
            status = int(ended.code or 0)
        said = capsys.readouterr()
        assert running.keys["admin"] not in said.out + said.err
        return status, said.out, said.err

    return run
