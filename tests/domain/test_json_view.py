"""What was signed is read with limits, what is not there reads as nothing, and slices are what was sent."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given

from app.domain.json_view import (
    SLICES_MAX,
    at,
    list_at,
    name_at,
    number_at,
    object_at,
    path_of,
    read_json,
    read_object,
    slices_at,
    text_at,
    time_at,
)
from app.domain.webhook import Refused, Result
from tests.domain.json_bodies import json_texts

VALUE = {
    "a": {"b": [{"id": 7, "s": "x", "t": True, "n": None}]},
    "half": "\ud800",
    "at": 1796040000,
}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nothing",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b"NaN",
        b"[1,]",
        b"[" * 65 + b"]" * 65,
        b"1" * 301,
    ],
)
def test_what_is_no_json_with_limits_is_refused(body: bytes) -> None:
    with pytest.raises(Refused) as refused:
        read_json(body)
    assert refused.value.result is Result.MALFORMED


def test_an_object_is_one() -> None:
    assert read_object(b' {"a": 1, "a": 2} ') == {"a": 2}
    with pytest.raises(Refused):
        read_object(b"[]")


def test_a_path_leads_to_what_is_there_and_to_nothing_else() -> None:
    assert name_at(VALUE, *path_of("a.b.0.id")) == "7"
    assert text_at(VALUE, "a", "b", 0, "s") == "x"
    assert text_at(VALUE, "a", "b", 0, "id") == ""
    assert name_at(VALUE, "a", "b", 0, "t") == ""
    assert at(VALUE, "a", "b", 1) is None
    assert at(VALUE, "a", "b", "0") is None
    assert at(VALUE, "a", 0) is None
    assert list_at(VALUE, "a") == []
    assert object_at(VALUE, "a", "b") == {}
    assert text_at(VALUE, "half") == "?"
    assert number_at({"n": 10**400}, "n") is None


def test_a_time_is_read_in_the_ways_in_which_it_is_written() -> None:
    wanted = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    for value, per_second in (
        (1796040000, 1), ("1796040000", 1), (1796040000000, 1000), ("2026-11-30T13:00:00+01:00", 1),
    ):  # fmt: skip
        assert time_at({"at": value}, "at", per_second=per_second) == wanted
    nothing: tuple[object, ...] = (
        None,
        True,
        "",
        "soon",
        "2026-11-30T13:00:00",
        1e300,
        -(10**30),
        "9" * 400,
        [],
    )
    for other in nothing:
        assert time_at({"at": other}, "at") is None


def test_slices_are_the_bytes_of_each_item_with_its_place() -> None:
    body = b'{"entry": [ {"c":[{"m": 1 },"\xc3\xbc"]}, {"c": []}, {"x": 1}, {"c":[ [2 , 3] ]} ], "entry2": 0}'
    assert slices_at(body, "entry", "*", "c", "*") == [
        ((0, 0), b'{"m": 1 }'),
        ((0, 1), b'"\xc3\xbc"'),
        ((3, 0), b"[2 , 3]"),
    ]
    assert slices_at(body, "entry2", "*") == []
    assert slices_at(b'{"a":[1],"a":[2]}', "a", "*") == [((0,), b"2")]
    assert slices_at(b'{"\\u0061":[1]}', "a", "*") == [((0,), b"1")]
    with pytest.raises(Refused):
        slices_at(b"[" + b"1," * SLICES_MAX + b"1]", "*")


@given(json_texts())
def test_every_item_of_an_array_reads_as_its_slice(text: str) -> None:
    body = f'{{"items": [{text}, {text}]}}'.encode()
    try:
        value = read_object(body)
    except Refused:
        return
    found = [json.loads(one) for _, one in slices_at(body, "items", "*")]
    assert found == value["items"]
