"""The faults of a run."""

from tests.torture.schedule import Kind, draw


def test_a_seed_gives_the_same_faults_again_and_another_one_others() -> None:
    assert draw(seed=1, seconds=60) == draw(seed=1, seconds=60)
    assert draw(seed=1, seconds=60) != draw(seed=2, seconds=60)


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    short = draw(seed=3, seconds=20)
    assert list(draw(seed=3, seconds=200))[: len(short)] == list(short)


def test_every_kind_comes_early() -> None:
    assert {fault.kind for fault in draw(seed=4, seconds=60)} == set(Kind)
