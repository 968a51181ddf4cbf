"""A service with sources, started once for all tests of this folder; each finds it empty."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from tests.api.sources.signing import Sources, emptied, open_sources

if TYPE_CHECKING:
    from tests.database import Admin


@pytest.fixture(scope="session")
async def with_sources(
    database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Sources]:
    async with open_sources(database_url, tmp_path_factory.mktemp("secrets")) as running:
        yield running


@pytest.fixture
async def sources(with_sources: Sources, admin: "Admin") -> AsyncIterator[Sources]:
    async with emptied(with_sources, admin) as ready:
        yield ready
