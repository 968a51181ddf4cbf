"""What a process has when it is ready is not looked through again, and what comes later is."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from app.service.memory import NEW_MAX, keep_what_is_here


@pytest.fixture
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


class Knot:
    """Something that only the collector takes away."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.usefixtures("_as_before")
def test_what_is_here_stays_and_what_comes_later_goes() -> None:
    old = weakref.ref(Knot())
    kept = Knot()
    stays = weakref.ref(kept)
    keep_what_is_here()
    # What had no holder is gone before anything is kept.
    assert old() is None
    assert gc.get_freeze_count() > 10_000
    del kept
    late = weakref.ref(Knot())
    gc.collect()
    assert stays() is not None
    assert late() is None
    assert gc.get_threshold()[0] == NEW_MAX
