"""Which headers an agent and a channel may send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import Problem
from app.wire.headers import InvalidHeader, check_header, header_lines, header_problems


@pytest.mark.parametrize("name", ["X-Trace", "Accept", "x.y_z", "ETag"])
@pytest.mark.parametrize("value", ["", "a", "a b\tc", '{"x": "~"}'])
def test_an_ordinary_header_may_be_sent(name: str, value: str) -> None:
    check_header(name, value)
    assert header_lines({name: value}, defaults={}) == f"{name}: {value}\r\n"


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "a\0", "ä", "(x)", "x" * 129])
def test_a_name_that_is_no_token_is_refused(name: str) -> None:
    with pytest.raises(InvalidHeader, match="header_name_invalid"):
        check_header(name, "x")


@pytest.mark.parametrize("value", ["a\r\nb", "a\nb", "\ra", "a\0", "ä", " a", "a ", "\x7f", "\t"])
def test_a_value_that_could_break_a_line_is_refused(value: str) -> None:
    with pytest.raises(InvalidHeader, match="header_value_invalid"):
        check_header("X-A", value)


@given(st.characters(), st.text(max_size=3), st.text(max_size=3))
def test_no_value_that_is_taken_holds_a_control_character_but_a_tab(
    one: str, before: str, after: str
) -> None:
    value = before + one + after
    try:
        check_header("X-A", value)
    except InvalidHeader:
        return
    assert value.isascii()
    assert all(character.isprintable() or character == "\t" for character in value)


def test_a_value_has_a_longest_length() -> None:
    check_header("X-A", "a" * 4096)
    with pytest.raises(InvalidHeader, match="header_value_too_long"):
        check_header("X-A", "a" * 4097)


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "content-LENGTH", "Transfer-Encoding", "Authorization", "Connection"),
        *("Webhook-Id", "webhook-signature", "webhook-anything", "svix-id", "Idempotency-Key"),
        *("Content-Type", "Expect", "Upgrade", "TE", "Trailer", "Proxy-Authorization", "Cookie"),
        *("Accept-Encoding", "User-Agent", "Keep-Alive"),
    ],
)
def test_an_agent_never_sets_what_is_not_its_own(name: str) -> None:
    with pytest.raises(InvalidHeader, match="header_reserved"):
        check_header(name, "x")


def test_a_channel_sets_credentials_but_not_the_framing() -> None:
    header_lines({"Authorization": "Bearer x", "Content-Type": "a/b"}, defaults={})
    with pytest.raises(InvalidHeader, match="header_reserved"):
        header_lines({"content-length": "0"}, defaults={})
    with pytest.raises(InvalidHeader, match="header_repeated"):
        header_lines({"X-A": "1", "x-a": "2"}, defaults={})


def test_a_default_stands_where_nobody_set_it() -> None:
    defaults = {"accept": "*/*", "user-agent": "us"}
    assert header_lines({}, defaults=defaults) == "Accept: */*\r\nUser-Agent: us\r\n"
    assert header_lines({"USER-agent": "me"}, defaults=defaults) == (
        "USER-agent: me\r\nAccept: */*\r\n"
    )


def test_problems_point_at_the_field_and_never_show_a_value() -> None:
    headers = {"X-A": "1", "x-a": "2", "Host": "h", "a/b~": "x", "X-B": "secret\n"}
    assert header_problems(headers, content_type="text plain") == [
        Problem("/headers/x-a", "header_repeated"),
        Problem("/headers/Host", "header_reserved"),
        Problem("/headers/a~1b~0", "header_name_invalid"),
        Problem("/headers/X-B", "header_value_invalid"),
        Problem("/content_type", "content_type_invalid"),
    ]
    many = {f"X-{number}": "x" for number in range(33)}
    assert header_problems(many, content_type="a/b") == [Problem("/headers", "too_many_headers")]
