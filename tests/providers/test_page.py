"""The page of the sources says what the code does."""

import re
import tomllib
from typing import Any

import pytest

from app.core import build_intakes
from app.domain.webhook import Refused
from app.settings import Settings
from tests.sources_page import PAGE, PARTS, page


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- {name}: made by" in text for name in PARTS)
    assert page(text) == text, "run `make schema`"


def test_every_configuration_on_the_page_can_be_used() -> None:
    examples = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert examples
    for example in examples:
        given = tomllib.loads(example)
        own = {"server": {"public_url": "https://in.example"}} | given
        own["destinations"] = {"crm": {"kind": "loopback"}}
        own["queues"] = {"support": {}}
        assert build_intakes(Settings.model_validate(own))


def test_the_kind_that_the_page_adds_takes_the_sample_that_it_adds() -> None:
    kind, sample = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    added: dict[str, Any] = {"__name__": "app.providers.acme"}
    for code in (kind, sample):
        exec(code, added)
    (case,) = added["CASES"]
    (good,) = case.samples
    read = case.receive(added["provider"], case.signed(good))
    assert [item.keys for item in read.items] == [item.keys for item in good.items]
    with pytest.raises(Refused):
        case.receive(added["provider"], case.signed(good), secrets=case.other)
