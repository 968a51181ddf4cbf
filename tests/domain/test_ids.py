"""Ids keep their order and their one spelling, whatever they are made of."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.ids import (
    INBOUND_PREFIX,
    MESSAGE_PREFIX,
    TURN_PREFIX,
    IdFactory,
    format_id,
    new_id,
    parse_id,
)

PREFIXES = (INBOUND_PREFIX, TURN_PREFIX, MESSAGE_PREFIX)


def scripted(values: list[int], *, random_bytes: bytes) -> IdFactory:
    clock = iter(values)
    return IdFactory(
        milliseconds=lambda: next(clock), random_bytes=lambda count: random_bytes[:1] * count
    )


@given(st.sampled_from(PREFIXES), st.uuids())
def test_an_id_reads_back_as_itself(prefix: str, value: UUID) -> None:
    text = format_id(prefix, value)
    assert len(text) == len(prefix) + 26
    assert parse_id(prefix, text) == value


@given(st.uuids(), st.uuids())
def test_texts_sort_like_the_ids(left: UUID, right: UUID) -> None:
    assert (format_id("in_", left) < format_id("in_", right)) == (left.int < right.int)


@given(st.sampled_from(PREFIXES), st.text())
def test_any_text_gives_none_or_an_id_that_is_spelled_like_it(prefix: str, text: str) -> None:
    for candidate in (text, prefix + text):
        value = parse_id(prefix, candidate)
        assert value is None or format_id(prefix, value) == candidate


@given(st.uuids(), st.integers(0, 25), st.characters())
def test_one_changed_character_is_another_id_or_none(value: UUID, at: int, new: str) -> None:
    body = format_id("", value)
    changed = "in_" + body[:at] + new + body[at + 1 :]
    assert (parse_id("in_", changed) == value) == (new == body[at])


def test_near_misses_are_refused() -> None:
    text = format_id("turn_", UUID("0190a8f0-1234-7abc-8def-0123456789ab"))
    assert parse_id("turn_", text) is not None
    body = text.removeprefix("turn_")
    near_misses = (
        "",
        "turn_",
        body,
        f"in_{body}",
        text.upper(),
        f"{text} ",
        f"{text}\n",
        f" {text}",
        f"{text}0",
        text[:-1],
        f"turn_8{body[1:]}",
        f"turn_{body[:-1]}u",
        f"turn_{body[:-2]}_0",
        f"turn_+{body[1:]}",
        f"turn_{body[:-1]}\N{ARABIC-INDIC DIGIT ONE}",
    )
    assert [parse_id("turn_", near) for near in near_misses] == [None] * len(near_misses)


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**74 - 1))
def test_the_layout_is_uuid_version_7_with_the_time_in_front(milliseconds: int, tail: int) -> None:
    value = new_id(milliseconds=milliseconds, tail=tail)
    assert (value.version, value.variant) == (7, "specified in RFC 4122")
    assert value.int >> 80 == milliseconds
    assert (value.int >> 64 & 0xFFF) << 62 | value.int & (2**62 - 1) == tail


@pytest.mark.parametrize(("milliseconds", "tail"), [(-1, 0), (2**48, 0), (0, -1), (0, 2**74)])
def test_what_does_not_fit_the_layout_is_refused(milliseconds: int, tail: int) -> None:
    with pytest.raises(ValueError, match="48 bits"):
        new_id(milliseconds=milliseconds, tail=tail)


@given(st.lists(st.integers(0, 2**40), min_size=2, max_size=30), st.binary(min_size=1, max_size=1))
def test_ids_rise_whatever_the_clock_does(clock: list[int], random_bytes: bytes) -> None:
    factory = scripted(clock, random_bytes=random_bytes)
    made = [factory.new().int for _ in clock]
    assert made == sorted(set(made))


def test_a_factory_keeps_the_time_of_its_clock() -> None:
    factory = scripted([5, 7, 7, 6], random_bytes=b"\x01")
    assert [factory.new().int >> 80 for _ in range(4)] == [5, 7, 7, 7]


def test_a_full_millisecond_borrows_the_next() -> None:
    factory = scripted([7, 7], random_bytes=b"\xff")
    factory.new()
    factory._last_tail = 2**74 - 1  # noqa: SLF001 - 2**41 steps are too many to take
    after = factory.new()
    assert after.int >> 80 == 8
