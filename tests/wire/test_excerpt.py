"""What of an answer may be stored and shown."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from app.wire.excerpt import EXCERPT_BYTES_MAX, safe_excerpt, secret_texts, target_texts
from app.wire.target import parse_target


@given(st.binary(max_size=2000), st.lists(st.text(max_size=5), max_size=3))
def test_an_excerpt_is_short_and_printable_whatever_came(answer: bytes, hidden: list[str]) -> None:
    text = safe_excerpt(answer, hidden=hidden)
    assert len(text.encode()) <= EXCERPT_BYTES_MAX
    assert not any(unicodedata.category(character) in ("Cc", "Cf") for character in text)


def test_lines_become_spaces_and_bytes_that_are_no_text_are_replaced() -> None:
    assert safe_excerpt(b"a\r\nb\tc\x00\xff", hidden=[]) == "a  b c\ufffd"


def test_what_is_hidden_is_masked_before_the_text_is_cut() -> None:
    answer = b"x" * 500 + b"topsecret-topsecret"
    assert "topsec" not in safe_excerpt(answer, hidden=["topsecret-topsecret"])


def test_a_secret_split_by_control_characters_is_masked() -> None:
    assert safe_excerpt(b"top\x00sec\xe2\x80\x8bret", hidden=["topsecret"]) == "***"


def test_a_secret_is_hidden_with_and_without_its_prefix() -> None:
    hidden = secret_texts([b"whsec_QUJDREVGRw==\n"])
    assert safe_excerpt(b"whsec_QUJDREVGRw== QUJDREVGRw==", hidden=hidden) == "*** ***"


def test_a_secret_is_hidden_as_it_stands_in_forms_json_and_base64() -> None:
    secret = 'a+/b "c4n4ry"'
    spelled = (
        "a%2B%2Fb%20%22c4n4ry%22",
        "a%2B%2Fb+%22c4n4ry%22",
        'a+/b \\"c4n4ry\\"',
        'a+\\/b \\"c4n4ry\\"',
        "YSsvYiAiYzRuNHJ5Ig==",
    )
    shown = safe_excerpt(", ".join(spelled).encode(), hidden=secret_texts([secret.encode()]))
    assert shown == "***, ***, ***, ***, ***"


def test_a_url_is_hidden_whole_in_its_parts_and_decoded() -> None:
    url = "https://crm.example/hooks/T0KEN%2DT0KEN?key=abcdefgh&v=1"
    hidden = target_texts(url, target=parse_target(url))
    shown = safe_excerpt(
        b"https://crm.example/hooks/T0KEN%2DT0KEN?key=abcdefgh&v=1 T0KEN-T0KEN abcdefgh"
        b" /hooks/T0KEN-T0KEN?key=abcdefgh&v=1 hooks",
        hidden=hidden,
    )
    assert shown == "*** *** *** *** hooks"


def test_each_character_of_ascii_is_shown_as_its_category_says() -> None:
    for code in range(128):
        character = chr(code)
        is_shown = unicodedata.category(character) not in ("Cc", "Cf")
        wanted = " " if character in "\t\r\n" else character if is_shown else ""
        # Beside what is no ASCII it goes the longer way.
        for beside in ("", "\u00e9"):
            assert safe_excerpt((character + beside).encode(), hidden=["hidden"]) == wanted + beside


def test_no_answer_is_no_text() -> None:
    assert safe_excerpt(b"", hidden=["secret", ""]) == ""
