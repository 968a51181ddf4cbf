"""Everything that is not removed ends at its own time, whatever was added before or behind it."""

import asyncio

from app.wire.deadlines import Deadlines


class Noted:
    """Notes when it expires."""

    def __init__(self, clock: "Clock", name: str) -> None:
        self._clock = clock
        self._name = name

    def expire(self) -> None:
        """Note it."""
        self._clock.ended[self._name] = self._clock.seconds


class Clock:
    """What expired, and when."""

    def __init__(self) -> None:
        self._began = asyncio.get_running_loop().time()
        self.ended: dict[str, float] = {}
        self.deadlines = Deadlines()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return asyncio.get_running_loop().time() - self._began

    def add(self, name: str, seconds: float) -> Noted:
        """To expire so many seconds from the beginning."""
        one = Noted(self, name)
        self.deadlines.add(one, self._began + seconds)
        return one


async def test_each_expires_at_its_time_in_whatever_order_they_came() -> None:
    clock = Clock()
    for name, seconds in (("c", 0.15), ("a", 0.05), ("d", 0.2), ("b", 0.1)):
        clock.add(name, seconds)
    await asyncio.sleep(0.35)
    assert list(clock.ended) == ["a", "b", "c", "d"]
    for name, seconds in (("a", 0.05), ("b", 0.1), ("c", 0.15), ("d", 0.2)):
        assert seconds - 0.005 <= clock.ended[name] < seconds + 0.1


async def test_what_is_removed_does_not_expire_and_delays_nothing() -> None:
    clock = Clock()
    first = clock.add("first", 0.05)
    clock.add("second", 0.1)
    clock.deadlines.remove(first)
    clock.deadlines.remove(clock.add("third", 0.15))
    clock.deadlines.remove(Noted(clock, "never"))
    await asyncio.sleep(0.3)
    assert list(clock.ended) == ["second"]
    assert clock.ended["second"] < 0.2


async def test_it_goes_on_after_all_have_expired_or_were_removed() -> None:
    clock = Clock()
    clock.deadlines.remove(clock.add("gone", 0.01))
    await asyncio.sleep(0.05)
    clock.add("late", 0.0)
    await asyncio.sleep(0.05)
    assert list(clock.ended) == ["late"]
    clock.add("cleared", clock.seconds + 0.05)
    clock.deadlines.clear()
    await asyncio.sleep(0.1)
    clock.add("next", 0.0)
    await asyncio.sleep(0.05)
    assert list(clock.ended) == ["late", "next"]
