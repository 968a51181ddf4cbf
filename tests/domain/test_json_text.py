"""Bodies are read strictly, payloads stay bytes, and no body does harm."""

import contextlib
import gc
import json
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.errors import InvalidContent, Problem
from app.domain.json_text import (
    AsSent,
    Items,
    Kind,
    RawJson,
    Shape,
    is_strict_json,
    parse_envelope,
)
from tests.domain.json_bodies import json_texts, near_json, spaces, values

MIB = 1 << 20
MESSAGE: Shape = {"to": Kind.VALUE, "payload": Kind.RAW, "delay_seconds": Kind.TEXT}
SHAPE: Shape = {
    "queue": Kind.VALUE,
    "metadata": Kind.VALUE,
    "payload": Kind.RAW,
    "delay_seconds": Kind.TEXT,
    "messages": Items(MESSAGE, items_max=5),
}
BATCH: Shape = {"items": Items(MESSAGE, items_max=5, apart=True)}


def problems(body: bytes, shape: Shape = SHAPE) -> list[tuple[str, str]]:
    with pytest.raises(InvalidContent) as caught:
        parse_envelope(body, shape)
    return [(problem.pointer, problem.code) for problem in caught.value.problems]


@given(json_texts(), json_texts(), st.lists(spaces, min_size=8, max_size=8))
def test_a_payload_comes_back_byte_for_byte(payload: str, other: str, gaps: list[str]) -> None:
    a, b, c, d, e, f, g, h = gaps
    body = (
        f'{a}{{{b}"payload"{c}:{d}{payload}{e},"messages":[{f}{{"payload":{g}{other}{h}}}{a}]}}{b}'
    )
    read = parse_envelope(body.encode(), SHAPE)
    expected = {} if payload == "null" else {"payload": payload.encode()}
    message = {} if other == "null" else {"payload": other.encode()}
    assert read == expected | {"messages": [message]}


@given(st.dictionaries(st.text(), values))
def test_parsed_fields_are_what_json_says(metadata: dict[str, object]) -> None:
    body = json.dumps({"metadata": metadata, "queue": "a"}).encode()
    assert parse_envelope(body, SHAPE) == {"metadata": metadata, "queue": "a"}


def test_each_kind_of_field_is_read_in_its_way() -> None:
    body = rb'{"queue":"\u0061","payload": [1,  2] ,"delay_seconds":1.50,"messages":[]}'
    read = parse_envelope(body, SHAPE)
    assert read == {
        "queue": "a",
        "payload": b"[1,  2]",
        "delay_seconds": AsSent(1.5, "1.50"),
        "messages": [],
    }
    assert isinstance(read["payload"], RawJson)


def test_the_name_of_a_field_may_be_spelled_with_escapes() -> None:
    assert parse_envelope(rb'{"\u0071ueue" : 1}', SHAPE) == {"queue": 1}


def test_null_means_absent_everywhere() -> None:
    body = b'{"queue":null,"payload":null,"delay_seconds":null,"messages":[{"to":null}]}'
    assert parse_envelope(body, SHAPE) == {"messages": [{}]}
    assert parse_envelope(b'{"messages":null}', SHAPE) == {}


def test_unknown_and_repeated_fields_are_all_named() -> None:
    body = b"""{"queue":1,"hold ":{},"queue":2,"a/b~c":[1],"\\ud800":1,
        "messages":[{},{"payloda":{}},{"to":null,"to":1}]}"""
    assert problems(body) == [
        (pointer, "unknown_field")
        for pointer in (
            "/hold ",
            "/queue",
            "/a~1b~0c",
            "/?",
            "/messages/1/payloda",
            "/messages/2/to",
        )
    ]


def test_a_repeated_field_inside_of_a_parsed_value_is_refused() -> None:
    body = b'{"metadata":{"a":[{"b":1,"b":1}]},"queu":1}'
    assert problems(body) == [("/metadata", "unknown_field"), ("/queu", "unknown_field")]


def test_at_most_20_problems_are_reported_with_short_names() -> None:
    body = json.dumps({f"{n}{'x' * 1000}": n for n in range(50)}).encode()
    found = problems(body)
    assert len(found) == 20
    assert max(len(pointer) for pointer, _ in found) <= 256


def test_items_apart_fail_alone() -> None:
    many = ",".join(f'"u{n}":[{n}]' for n in range(30))
    body = f'{{"items":[{{"to":"a"}},{{"too":1}},7,{{{many}}},{{"to":"b"}}]}}'
    read = parse_envelope(body.encode(), BATCH)["items"]
    assert isinstance(read, list)
    first, misspelt, number, crowded, last = read
    assert (first, last) == ({"to": "a"}, {"to": "b"})
    assert misspelt.problems[0].pointer == "/items/1/too"
    assert (number.problems[0].pointer, number.problems[0].code) == ("/items/2", "wrong_type")
    assert len(crowded.problems) == 20


def test_a_problem_apart_does_not_hide_one_outside() -> None:
    assert problems(b'{"items":[{"too":1}],"itens":1}', BATCH) == [("/itens", "unknown_field")]


def test_broken_grammar_in_an_item_breaks_the_whole_body() -> None:
    assert problems(b'{"items":[{"to":1},{"to":}]}', BATCH) == [("", "json_invalid")]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", ("", "json_invalid")),
        (b" ", ("", "json_invalid")),
        (b"\xef\xbb\xbf{}", ("", "json_invalid")),
        (b"{} {}", ("", "json_invalid")),
        (b"{}x", ("", "json_invalid")),
        (b"[NaN]", ("", "json_invalid")),
        (b"[] x", ("", "json_invalid")),
        (b'{"queue":NaN}', ("", "json_invalid")),
        (b'{"payload":[-Infinity]}', ("", "json_invalid")),
        (b'{"other":Infinity}', ("", "json_invalid")),
        (b'{"queue":1,}', ("", "json_invalid")),
        (b'{"queue":1 "payload":1}', ("", "json_invalid")),
        (b'{"queue" 1}', ("", "json_invalid")),
        (b"{'queue':1}", ("", "json_invalid")),
        (b'{,"queue":1}', ("", "json_invalid")),
        (b'{"queue":1,2:3}', ("", "json_invalid")),
        (b"{1:2}", ("", "json_invalid")),
        (b'{"queue":nul}', ("", "json_invalid")),
        (b'{"queue":nullx}', ("", "json_invalid")),
        (b'{"payload":01}', ("", "json_invalid")),
        (b'{"payload":"a\nb"}', ("", "json_invalid")),
        (b'{"queue\n":1}', ("", "json_invalid")),
        (b'{"payload":"\\x"}', ("", "json_invalid")),
        (b'{"messages":[{}', ("", "json_invalid")),
        (b'{"messages":[{},]}', ("", "json_invalid")),
        (b'{"messages":[{} {}]}', ("", "json_invalid")),
        (b'{"payload":"\xff"}', ("", "json_not_utf8")),
        (b'{"payload":"\xed\xa0\x80"}', ("", "json_not_utf8")),
        (b"[]", ("", "wrong_type")),
        (b'"{}"', ("", "wrong_type")),
        (b"null", ("", "wrong_type")),
        (b'{"messages":{}}', ("/messages", "wrong_type")),
        (b'{"messages":[null]}', ("/messages/0", "wrong_type")),
        (b'{"messages":[{},{},{},{},{},{}]}', ("/messages", "too_many")),
        (b'{"queue":1e999}', ("/queue", "number_too_large")),
        (b'{"metadata":{"n":-1e999}}', ("/metadata", "number_too_large")),
        (b'{"queue":' + b"1" * 5000 + b"}", ("/queue", "number_too_large")),
    ],
)
def test_a_body_that_cannot_be_taken_says_why(body: bytes, expected: tuple[str, str]) -> None:
    assert problems(body) == [expected]


def test_broken_grammar_is_reported_with_its_character() -> None:
    with pytest.raises(InvalidContent) as caught:
        parse_envelope('{"é":1, "payload": ?}'.encode(), {"é": Kind.VALUE, "payload": Kind.RAW})
    assert "(character 19)" in caught.value.problems[0].detail


@pytest.mark.parametrize(
    "payload",
    [
        b"[" * 500 + b"]" * 500,
        b"9" * 5000,
        b"1." + b"9" * 5000 + b"e-9999",
        b'"\\ud800"',
        b'{"a":1,"a":2}',
        b'"\\u0000"',
        b"-0",
        b"1E+400",
    ],
)
def test_a_payload_that_few_can_parse_is_still_taken_as_bytes(payload: bytes) -> None:
    assert parse_envelope(b'{"payload":' + payload + b"}", SHAPE) == {"payload": payload}


def test_depth_is_bounded_and_counts_no_bracket_in_a_string() -> None:
    for brackets in (b"[" * 100_000, b'{"a":' * 100_000, b"[" * 600 + b"]" * 600):
        assert problems(b'{"payload":' + brackets) == [("", "json_too_deep")]
    flat = b'"' + b'[\\"{' * 1000 + b'"'
    wide = b"[" + b"[]," * 1000 + b"{}]"
    for payload in (flat, wide):
        assert parse_envelope(b'{"payload":' + payload + b"}", SHAPE) == {"payload": payload}


def test_a_parsed_string_may_hold_anything_json_can() -> None:
    assert parse_envelope(rb'{"queue":"\ud800\u0000"}', SHAPE) == {"queue": "\ud800\0"}


@given(st.binary() | near_json.map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(b'{"payload":')
@example(b'{"queue":"')
def test_no_body_raises_anything_else(body: bytes) -> None:
    for candidate in (body, b"{" + body + b"}", b'{"payload":' + body, b'{"messages":[' + body):
        for shape in (SHAPE, BATCH):
            found: tuple[Problem, ...] = ()
            try:
                parse_envelope(candidate, shape)
            except InvalidContent as invalid:
                found = invalid.problems
            assert len(found) <= 20
            # An answer must be able to hold each of them.
            "".join(problem.pointer + problem.detail for problem in found).encode()


@contextlib.contextmanager
def collections_counted() -> Iterator[list[str]]:
    seen: list[str] = []

    def note(phase: str, _info: dict[str, int]) -> None:
        seen.append(phase)

    gc.callbacks.append(note)
    try:
        yield seen
    finally:
        gc.callbacks.remove(note)


def test_many_small_values_do_not_set_the_collector_of_cycles_to_work() -> None:
    payload = b"[" + b"[]," * 100_000 + b"[]]"
    with collections_counted() as collections:
        parse_envelope(b'{"payload":' + payload + b"}", SHAPE)
        is_strict_json(payload)
    # One may follow each reading; a collector at work comes by hundreds of times.
    assert len(collections) <= 2 * 2


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("body", [b'{"payload":[]}', b'{"payload":[}', b"[" * 600])
def test_the_collector_is_left_as_it_was(body: bytes, *, enabled: bool) -> None:
    was = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with contextlib.suppress(InvalidContent):
            parse_envelope(body, SHAPE)
        is_strict_json(body)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was else gc.disable)()


HOSTILE: dict[str, Callable[[], bytes]] = {
    "brackets": lambda: b"[" * MIB,
    "brackets in a payload": lambda: b'{"payload":' + b"[" * MIB,
    "objects": lambda: b'{"payload":' * (MIB // 11),
    "backslashes": lambda: b'{"payload":' + b'"\\' * (MIB // 2),
    "quoted brackets": lambda: b'{"payload":' + b'"\\["' * (MIB // 4),
    "escaped quotes": lambda: b"[" * 600 + b'"' + b'\\"' * (MIB // 2),
    "quotes": lambda: b'"' * MIB,
    "many strings": lambda: b'{"payload":[' + b"[]," * 600 + b'"[",' * (MIB // 4) + b"[]]}",
    "stairs": lambda: b'{"payload":[' + (b"[" * 60 + b"]" * 60 + b",") * (MIB // 121) + b"[]]}",
    "spaces": lambda: b'{"payload":1' + b" " * MIB + b"x",
    "digits": lambda: b'{"payload":' + b"9" * MIB + b"}",
    "parsed digits": lambda: b'{"queue":' + b"9" * MIB + b"}",
    "parsed decimals": lambda: b'{"queue":0.' + b"9" * MIB + b"}",
    "flat arrays": lambda: b'{"payload":[' + b"[]," * (MIB // 3) + b"[]]}",
    "escapes": lambda: b'{"payload":"' + b"\\n" * (MIB // 2) + b'\\ud800"}',
    "pairs": lambda: b'{"payload":"' + b"\\ud83d\\ude00" * (MIB // 12) + b'"}',
    "repeated fields": lambda: b"{" + b'"a":1,' * (MIB // 6) + b'"a":1}',
    "items": lambda: b'{"messages":[' + b"{}," * (MIB // 3) + b"{}]}",
    "a long name": lambda: b'{"' + b"a/" * (MIB // 2) + b'":1}',
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_mebibyte_of_anything_ends_soon(make: Callable[[], bytes]) -> None:
    body = make()
    started = time.process_time()
    with contextlib.suppress(InvalidContent):
        parse_envelope(body, SHAPE)
    is_strict_json(body)
    # A linear reading takes about a tenth of this, a quadratic one minutes.
    assert time.process_time() - started < 2
