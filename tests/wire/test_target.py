"""What the one URL parser takes, and everything that it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.wire.target import InvalidTarget, Target, parse_target, target_within


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://crm.example/hooks", Target("https", "crm.example", 443, "/hooks")),
        ("HTTP://CRM.Example", Target("http", "crm.example", 80, "/")),
        ("http://a:8080?x=1", Target("http", "a", 8080, "/?x=1")),
        ("http://8.8.8.8/", Target("http", "8.8.8.8", 80, "/")),
        ("http://[2606:4700::0:1]:81/", Target("http", "2606:4700::1", 81, "/")),
        ("http://my_svc.ns-1.local/a%2Fb", Target("http", "my_svc.ns-1.local", 80, "/a%2Fb")),
        ("http://a/@b:c", Target("http", "a", 80, "/@b:c")),
        ("http://1.example/", Target("http", "1.example", 80, "/")),
    ],
)
def test_a_plain_url_has_one_reading(url: str, target: Target) -> None:
    assert parse_target(url) == target


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://user@a/", "userinfo_not_allowed"),
        ("http://user:pw@a/", "userinfo_not_allowed"),
        ("http://@a/", "userinfo_not_allowed"),
        ("http://good\\@127.0.0.1/", "url_character_invalid"),
        ("http:\\\\a/", "url_character_invalid"),
        ("http://a/\r\nX: y", "url_character_invalid"),
        ("http://a/ b", "url_character_invalid"),
        (" http://a/", "url_character_invalid"),
        ("http://a/\x00", "url_character_invalid"),
        ("http://a/\x7f", "url_character_invalid"),
        ("http://ex\u00e4mple/", "url_character_invalid"),
        ("http://127\uff0e0\uff0e0\uff0e1/", "url_character_invalid"),
        ("http://①②⑦.0.0.1/", "url_character_invalid"),
        ("http://a/ä", "url_character_invalid"),
        ("", "url_character_invalid"),
        ("http:///x", "host_missing"),
        ("http://:80/", "host_missing"),
        ("http://?x", "host_missing"),
        ("http://a:0/", "port_invalid"),
        ("http://a:/", "port_invalid"),
        ("http://a:65536/", "port_invalid"),
        ("http://a:080/", "port_invalid"),
        ("http://a:99999999999/", "port_invalid"),
        ("http://a:8o/", "port_invalid"),
        ("http://a:+80/", "port_invalid"),
        ("http://a:80:80/", "port_invalid"),
        ("ftp://a/", "scheme_not_supported"),
        ("file:///etc/passwd", "scheme_not_supported"),
        ("gopher://a/", "scheme_not_supported"),
        ("javascript:alert(1)", "url_invalid"),
        ("//a/", "url_invalid"),
        ("a/b", "url_invalid"),
        ("http:/a/", "url_invalid"),
        ("http://a/#x", "fragment_not_allowed"),
        ("http://a#@b/", "fragment_not_allowed"),
        ("http://%61/", "host_invalid"),
        ("http://127.0.0.1%2f/", "host_invalid"),
        ("http://a./", "host_invalid"),
        ("http://a../", "host_invalid"),
        ("http://.a/", "host_invalid"),
        ("http://a..b/", "host_invalid"),
        ("http://-a/", "host_invalid"),
        ("http://a-/", "host_invalid"),
        ("http://a,b/", "host_invalid"),
        ("http://" + "a" * 64 + "/", "host_invalid"),
        ("http://" + "a." * 127 + "a/", "host_invalid"),
        ("http://2130706433/", "host_invalid"),
        ("http://0x7f000001/", "host_invalid"),
        ("http://0x7f.1/", "host_invalid"),
        ("http://0177.0.0.1/", "host_invalid"),
        ("http://127.1/", "host_invalid"),
        ("http://127.0.0.1./", "host_invalid"),
        ("http://0/", "host_invalid"),
        ("http://a.0x/", "host_invalid"),
        ("http://256.1.1.1/", "host_invalid"),
        ("http://[::1/", "host_invalid"),
        ("http://[]/", "host_invalid"),
        ("http://[a]/", "host_invalid"),
        ("http://[127.0.0.1]/", "host_invalid"),
        ("http://[fe80::1%25eth0]/", "host_invalid"),
        ("http://::1/", "port_invalid"),
        ("http://[::1]a/", "host_invalid"),
        ("http://a/" + "b" * 2048, "url_too_long"),
    ],
)
def test_an_odd_url_is_refused_with_a_stable_code(url: str, code: str) -> None:
    with pytest.raises(InvalidTarget) as refused:
        parse_target(url)
    assert refused.value.code == str(refused.value) == code


def test_the_longest_url_is_still_taken() -> None:
    url = "http://a/" + "b" * (2048 - len("http://a/"))
    assert parse_target(url).path_and_query == url.removeprefix("http://a")


@given(
    st.one_of(
        st.text(),
        st.from_regex(r"https?://[^/]{0,12}(:[0-9]{0,6})?[/?#]?[!-~]{0,12}", fullmatch=True),
    )
)
def test_whatever_is_taken_is_plain_and_is_taken_again_as_the_same(url: str) -> None:
    try:
        target = parse_target(url)
    except InvalidTarget:
        return
    assert target.host.isascii()
    assert not set("@%\\/?#[] ") & set(target.host)
    assert 1 <= target.port <= 65535
    host = f"[{target.host}]" if ":" in target.host else target.host
    rebuilt = f"{target.scheme}://{host}:{target.port}{target.path_and_query}"
    if len(rebuilt) <= 2048:
        assert parse_target(rebuilt) == target


@pytest.mark.parametrize(
    ("url", "api_url", "leads_there"),
    [
        ("https://Hooks.Chat.example/a", "https://chat.example", True),
        ("http://hooks.chat.example/a", "https://chat.example", False),
        ("http://hooks.chat.example/a", "http://127.0.0.1:8080", True),
        ("https://hooks.chat.example.evil.example/a", "https://chat.example", False),
        ("https://evil.example/hooks.chat.example", "https://chat.example", False),
        ("https://hooks.chat.example@evil.example/", "https://chat.example", False),
        ("ftp://hooks.chat.example/", "http://127.0.0.1:8080", False),
    ],
)
def test_a_url_that_came_from_outside_leads_to_a_known_host_or_nowhere(
    url: str, api_url: str, *, leads_there: bool
) -> None:
    found = target_within(url, ["HOOKS.chat.example"], api_url=api_url)
    assert (found is not None) == leads_there
