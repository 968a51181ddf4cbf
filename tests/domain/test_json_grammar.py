"""Strictness and depth are questions with one answer, whoever reads."""

from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.json_grammar import deeper_than
from app.domain.json_text import is_strict_json
from tests.domain.json_bodies import json_texts, near_json, near_surrogates, spaces
from tests.domain.json_reference import depth_slowly, is_strict_json_slowly


@given(near_json | near_surrogates | json_texts())
@example("[" * 64 + "]" * 64)
@example("[" * 65 + "]" * 65)
@example("1" * 300)
@example("1" * 301)
@example("[-" + "1" * 299 + "." + "1" * 299 + "]")
@example("\N{BYTE ORDER MARK}1")
@example("[Infinity]")
@example('"\\ud83d\\ude00"')
@example('"\\ud83d\\\\ude00"')
@example('"\\\\ud83d"')
@example('"\\ude00\\ud83d"')
@example('"\\ud83d\\ud83d"')
@example('"' + "[" * 100 + '"')
def test_strictness_agrees_with_a_slow_reading(text: str) -> None:
    body = text.encode("utf-8", "surrogatepass")
    assert is_strict_json(body) == is_strict_json_slowly(body)


@given(st.binary())
def test_strictness_of_any_bytes_is_a_plain_answer(body: bytes) -> None:
    assert is_strict_json(body) == is_strict_json_slowly(body)


@given(json_texts(), spaces, spaces)
def test_what_everybody_writes_is_strict(text: str, before: str, after: str) -> None:
    try:
        body = f"{before}{text}{after}".encode()
    except UnicodeEncodeError:
        return
    assert is_strict_json(body) == is_strict_json_slowly(body)


marks = st.text('[]{}"\\', max_size=60)
stairs = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8).map(
    lambda steps: "".join("[" * up + "]" * down for up, down in steps)
)


@given(marks | near_json | stairs)
@example("]" * 9 + "[" * 9)
@example('"' + "[" * 9)
@example('"\\"' + "[" * 9 + '"' + "{" * 8 + "[")
@example('"\\\\"' + "[" * 9)
@example("".join("[" * up for up in range(17)))
def test_depth_agrees_with_a_slow_reading(text: str) -> None:
    body = text.encode("utf-8", "surrogatepass")
    depth = depth_slowly(body)
    assert not deeper_than(depth, body)
    assert depth == 0 or deeper_than(depth - 1, body)


@given(st.binary())
def test_depth_of_any_bytes_is_a_plain_answer(body: bytes) -> None:
    assert deeper_than(0, body) == (depth_slowly(body) > 0)
