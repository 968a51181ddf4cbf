"""Writes what docs/sources.md says of each kind: the page is text, and its tables are made of the code."""

import re
from pathlib import Path
from typing import Final

from app.domain.webhook import Result
from app.providers import AnyProvider, discover
from app.providers.hmac import HmacConfig

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "sources.md"
_PART: Final = re.compile(r"(<!-- (\w+): made by `make schema` -->\n).*?(<!-- end -->)", re.DOTALL)


def kinds() -> str:
    """One row a kind: what is verified, what the key is, and which conversation it belongs to."""
    rows = ["| kind | who | verified by | time | key | conversation |", "|---|---|---|---|---|---|"]
    for kind, provider in sorted(discover().items()):
        sheet = provider.sheet
        time = "yes" if provider.signed.time else "no"
        rows.append(
            f"| `{kind}` | {sheet.title} | {sheet.signature} | {time} | {sheet.key} | {sheet.conversation} |"
        )
    return "\n".join(rows)


def setups() -> str:
    """One row a kind: what to do where, and how a request of it is answered."""
    rows = ["| kind | where | bytes | success | refused | later |", "|---|---|---|---|---|---|"]
    for kind, provider in sorted(discover().items()):
        if provider.is_timed:
            rows.append(f"| `{kind}` | {provider.sheet.setup} | none | none | none | none |")
            continue
        rows.append(
            f"| `{kind}` | {provider.sheet.setup} | {provider.body_bytes_max} "
            f"| {_status(provider, Result.ACCEPTED)} | {_status(provider, Result.BAD_SIGNATURE)} "
            f"| {_status(provider, Result.NOT_READY)} |"
        )
    return "\n".join(rows)


def own_keys() -> str:
    """One row a kind: the keys that its `Config` adds to those of every source, in the words of that `Config`."""
    rows = ["| kind | its own keys | in short |", "|---|---|---|"]
    for kind, provider in sorted(discover().items()):
        names = ", ".join(
            f"`{name}` (required)" if field.is_required() else f"`{name}`"
            for name, field in provider.Config.model_fields.items()
        )
        words = " ".join((provider.Config.__doc__ or "").split())
        rows.append(f"| `{kind}` | {names or 'none'} | {words} |")
    return "\n".join(rows)


def hmac_keys() -> str:
    """The names and defaults of the keys of `hmac`."""
    rows = ["| key | default |", "|---|---|"]
    for name, field in HmacConfig.model_fields.items():
        default = "required" if field.is_required() else field.default
        spelled = "none" if default is None else default
        rows.append(f"| `{name}` | `{spelled}` |" if spelled != "" else f"| `{name}` | nothing |")
    return "\n".join(rows)


def _status(provider: AnyProvider, result: Result) -> int:
    return provider.reply(result).status


PARTS: Final = {"kinds": kinds, "setups": setups, "own_keys": own_keys, "hmac_keys": hmac_keys}


def page(text: str) -> str:
    """The page with its made parts as the code has them."""
    return _PART.sub(lambda part: f"{part[1]}{PARTS[part[2]]()}\n{part[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
