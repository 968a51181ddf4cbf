"""Writes what docs/channels.md says of each kind: the page is text, and its tables are made of the code."""

import re
from pathlib import Path
from typing import Final

from app.channels import AnyChannel, discover

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "channels.md"
_PART: Final = re.compile(r"(<!-- (\w+): made by `make schema` -->\n).*?(<!-- end -->)", re.DOTALL)


def kinds() -> str:
    """One row a kind: what becomes of the key, whether it can be asked, what the receipt is, and whom it answers."""
    rows = [
        "| kind | our key | look-up | receipt | answers sources of kind |",
        "|---|---|---|---|---|",
    ]
    for kind, channel in sorted(discover().items()):
        facts = channel.facts
        answers = ", ".join(f"`{one}`" for one in sorted(channel.answers)) or "none"
        rows.append(f"| `{kind}` | {facts.key} | {facts.lookup} | {facts.receipt} | {answers} |")
    return "\n".join(rows)


def limits() -> str:
    """One row a kind: the defaults that it has instead of those of every destination."""
    rows = [
        "| kind | `rate_per_second` | `pace_seconds` | `concurrency_max` | `timeout_seconds` | `key_ttl_seconds` |",
        "|---|---|---|---|---|---|",
    ]
    for kind, channel in sorted(discover().items()):
        own = channel.limits
        values = (
            own.rate_per_second,
            own.pace_seconds,
            own.concurrency_max,
            own.timeout_seconds,
            own.key_ttl_seconds,
        )
        spelled = ["" if value is None else f"{value:g}" for value in values]
        rows.append(f"| `{kind}` | {' | '.join(spelled)} |")
    return "\n".join(rows)


def own_keys() -> str:
    """One row a kind: the keys that its `Config` adds to those of every destination."""
    rows = ["| kind | its own keys |", "|---|---|"]
    rows += [f"| `{kind}` | {_keys(channel)} |" for kind, channel in sorted(discover().items())]
    return "\n".join(rows)


def _keys(channel: AnyChannel) -> str:
    keys: list[str] = []
    for name, field in channel.Config.model_fields.items():
        spelled = f"`{field.alias or name}`"
        keys.append(f"{spelled} (required)" if field.is_required() else spelled)
    return ", ".join(keys) or "none"


PARTS: Final = {"kinds": kinds, "limits": limits, "own_keys": own_keys}


def page(text: str) -> str:
    """The page with its made parts as the code has them."""
    return _PART.sub(lambda part: f"{part[1]}{PARTS[part[2]]()}\n{part[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
