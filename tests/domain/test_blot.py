"""A secret is blotted out of a body in whatever way it was spelled there, and nothing else is."""

import json
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.blot import NotBlotted, blot

URL = "https://hooks.slack.com/actions/T1/12/aB~c?x=1&y=%20ü"
SPELLINGS = {
    "plain": URL,
    "json": json.dumps(URL),
    "json with slashes": json.dumps(URL).replace("/", "\\/"),
    "json in capitals": json.dumps(URL).replace("\\u00fc", "\\u00FC"),
    "json as it is": json.dumps(URL, ensure_ascii=False),
    "a form": urlencode({"u": URL}),
    "a form in small letters": quote(URL, safe="").replace("%2F", "%2f").replace("%3A", "%3a"),
    "a query": quote(URL, safe="/:"),
    "a payload with its slashes": "payload=" + quote(json.dumps({"u": URL})),
    "a payload with its slashes, each escaped in JSON": "payload="
    + quote(json.dumps({"u": URL}).replace("/", "\\/")),
    "a payload of a browser": "payload=" + quote(json.dumps({"u": URL}), safe="!~*'()"),
    "all of it escaped in JSON": "".join(f"\\u{ord(one):04X}" for one in URL),
    "all of it escaped in a form": "".join(f"%{one:02x}" for one in URL.encode()),
    "json in a form": quote_plus(json.dumps({"u": URL}).replace("/", "\\/")),
}


@pytest.mark.parametrize("how", SPELLINGS)
def test_it_is_found_however_it_is_spelled(how: str) -> None:
    body = f"before {SPELLINGS[how]} between {SPELLINGS[how]} behind".encode()
    blotted = blot(body, [URL])
    assert blotted.startswith(b"before ")
    assert blotted.count(b"***") == 2
    assert b"aB~c" not in blotted
    assert b"aB%7Ec" not in blotted


def test_one_that_another_begins_with_is_found_beside_it() -> None:
    for secrets in ([URL, URL + "y"], [URL + "y", URL]):
        assert blot(f"{URL} {URL}y {URL}".encode(), secrets) == b"*** *** ***"


def test_a_long_body_of_escapes_is_read() -> None:
    sent = b"%61" * 100_000
    with pytest.raises(NotBlotted):
        blot(sent, ["a" * 500 + "b"])
    assert blot(sent, ["a" * 100_000]) == b"***"


def test_nothing_is_nowhere() -> None:
    assert blot(b"abc", [""]) == b"abc"


def test_what_is_not_found_is_told() -> None:
    with pytest.raises(NotBlotted):
        blot(b"nothing of it", [URL])


WORDS = st.text(alphabet="xyz", max_size=7)


@given(st.text(alphabet="xyzABC019:/?&=%+-_.~", min_size=8), WORDS, WORDS)
def test_nothing_around_it_is_touched(secret: str, before: str, behind: str) -> None:
    body = json.dumps([before, secret, behind]).encode()
    assert json.loads(blot(body, [secret])) == [before, "***", behind]
