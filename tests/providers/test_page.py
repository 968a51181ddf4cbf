"""The page of the sources says what the code does."""

import re
import tomllib

from app.core import build_intakes
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
