"""The binaries, and folders for what they serve."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.dev.binaries import Binaries, find_binaries
from tests.dev.clusters import reachable_folder, root_only


@pytest.fixture(scope="module")
def binaries() -> Binaries:
    return find_binaries()


@pytest.fixture
def reachable() -> Iterator[Path]:
    with reachable_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def used() -> Iterator[Path]:
    """The same for tests that leave it as they found it: making a cluster is what takes long."""
    with reachable_folder() as folder:
        yield folder


@pytest.fixture(scope="module", params=["account", pytest.param("namespace", marks=root_only)])
def folder(request: pytest.FixtureRequest, used: Path) -> Iterator[Path]:
    """Started by root: once run by an account, once, where that is barred, in a namespace."""
    if request.param == "account":
        yield used
        return
    with reachable_folder() as private:
        private.parent.chmod(0o700)
        yield private
