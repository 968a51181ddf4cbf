"""docs/channels.md says what the channels say of themselves."""

import re
from typing import Any

from tests.channels_page import PAGE, PARTS, page


def test_the_page_says_what_the_code_says() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run `make schema`"


def test_the_page_has_every_part() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- {name}: made by" in text for name in PARTS)


def test_the_channel_that_the_page_adds_takes_the_sample_that_it_adds() -> None:
    kind, sample = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    added: dict[str, Any] = {"__name__": "app.channels.acme"}
    for code in (kind, sample):
        exec(code, added)
    channel, good = added["channel"], added["SAMPLE"]
    config = channel.Config.model_validate(dict(good.config) | {"api_url": "http://127.0.0.1:1"})
    address = channel.check(good.draft(), reply=good.reply, config=config)
    assert address.parts == {"thread": "t1"}
