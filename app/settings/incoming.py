"""The policy of one source: where what comes from it goes, and how much of it."""

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from app.settings.section import Section, with_options
from app.settings.values import Count, Name, Options
from app.wire.pointer import Pointers

PATTERNS_MAX: Final = 100
# The name stands in the URL that is pasted, and in front of every conversation of the source.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
# What comes over the plain API.
_RESERVED: Final = "api"


def _source_name(value: str) -> str:
    if _NAME.fullmatch(value) is None:
        words = "the name of a source has 1 to 63 letters, digits, and - _ . behind the first"
        raise PydanticCustomError("name", words)
    if value == _RESERVED:
        raise PydanticCustomError("name", "api is the plain API: another name is needed")
    return value


SourceName = Annotated[str, AfterValidator(_source_name)]
Patterns = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=255)], ...], Field(max_length=PATTERNS_MAX)
]


class Filter(Section):
    """What is kept, by the provider's names of events; `*` stands for any characters. Without `keep`: everything."""

    keep: Patterns | None = None
    drop: Patterns = ()


class Source(Section):
    """The policy of one source. `options` are the keys that its kind understands."""

    kind: Name
    queue: Name = "default"
    reply_to: Name | None = None
    secrets: Pointers = ()
    body_bytes_max: Annotated[Count | None, Field(ge=1024, le=1 << 26)] = None
    priority: Annotated[Count, Field(ge=-100, le=100)] = 0
    filter: Filter = Filter()
    echoes: Literal["ignore", "keep"] = "ignore"
    options: Options = Field(default={}, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _gather_options(cls, data: object) -> object:
        return with_options(cls, data)
