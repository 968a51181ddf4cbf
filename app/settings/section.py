"""What every table of the file has in common: frozen, and no name in it that nobody knows."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the file. `not_built` names its keys that are documented for a later feature."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )
    not_built: ClassVar[frozenset[str]] = frozenset()


def with_options(section: type[Section], data: object) -> object:
    """Put the keys that a section does not know under `options`: those of its kind."""
    if not isinstance(data, Mapping):
        return data
    known = section.model_fields.keys() | section.not_built
    options = {key: value for key, value in data.items() if key not in known}
    own = {key: value for key, value in data.items() if key in known}
    return own | {"options": options} if options else own
