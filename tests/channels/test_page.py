"""docs/channels.md says what the channels say of themselves."""

from tests.channels_page import PAGE, PARTS, page


def test_the_page_says_what_the_code_says() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run `make schema`"


def test_the_page_has_every_part() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- {name}: made by" in text for name in PARTS)
