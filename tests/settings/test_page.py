"""The page of the configuration says what the code does."""

import re
import tomllib
from pathlib import Path

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from app.settings import (
    Database,
    Delivery,
    Destination,
    Keys,
    Limits,
    Network,
    Queue,
    Retention,
    Server,
    Settings,
    Source,
    Sweep,
)
from tests.settings.loading import load

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
SECTIONS: dict[str, type[BaseModel]] = {
    "Top level": Settings,
    "`[database]`": Database,
    "`[limits]`": Limits,
    "`[keys]`": Keys,
    "`[delivery]`": Delivery,
    "`[sweep]`": Sweep,
    "`[retention]`": Retention,
    "`[server]`": Server,
    "`[network]`": Network,
    "`[queues.NAME]`": Queue,
    "`[sources.NAME]`": Source,
    "`[destinations.NAME]`": Destination,
}


def rows_of_the_page() -> dict[str, dict[str, tuple[str, str]]]:
    rows: dict[str, dict[str, tuple[str, str]]] = {}
    for part in PAGE.read_text().split("\n### ")[1:]:
        title, _, rest = part.partition("\n")
        found = re.findall(r"^\| `(\w+)` \| `(.+?)` \| (.*?) ?\|", rest, re.MULTILINE)
        rows[title] = {name: (default, bounds) for name, default, bounds in found}
    return rows


def spelled(field: FieldInfo) -> str:
    match field.default:
        case _ if field.is_required():
            return "required"
        case None:
            return "none"
        case bool() as flag:
            return str(flag).lower()
        case float() as number:
            return f"{number:g}"
        case int() as number:
            return str(number)
        case tuple():
            return "[]"
        case BaseModel():
            return "{}"
        case other:
            return f'"{other}"'


def bounds(field: FieldInfo) -> str:
    low = [part.ge for part in field.metadata if isinstance(part, Ge)]
    high = [part.le for part in field.metadata if isinstance(part, Le)]
    return f"{low[0]} to {high[0]}" if low else ""


def test_the_page_names_every_key_with_its_default_and_bounds() -> None:
    nested = (
        {"options"}
        | {name for name in Settings.model_fields if f"`[{name}]`" in SECTIONS}
        | {"queues", "sources", "destinations"}
    )
    expected = {
        title: {
            name: (spelled(field), bounds(field))
            for name, field in model.model_fields.items()
            if name not in nested or (model is Queue and name == "destinations")
        }
        for title, model in SECTIONS.items()
    }
    assert rows_of_the_page() == expected


def test_the_example_of_the_page_is_a_configuration() -> None:
    example = PAGE.read_text().split("```toml\n")[1].split("```")[0]
    assert tomllib.loads(example)["queues"]
    Path("url").write_text("postgresql://db/x")
    settings = load(example.replace("/run/secrets/database_url", "url"))
    assert settings.queues["support"].destinations == ("crm",)
