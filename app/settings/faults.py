"""What is wrong with a configuration, in lines that name the key and never repeat a value."""

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from pydantic import BaseModel, ValidationError

_BARE: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")
_KNOWN_MAX: Final = 30


# Our words for what pydantic finds, by its name for it; bounds and choices come from the model.
_WORDS: Final = {
    "missing": "this key is needed",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number is needed"),
    "int_parsing_size": "the number is too large",
    **dict.fromkeys(("float_type", "float_parsing"), "a number is needed"),
    "finite_number": "a finite number is needed",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false is needed"),
    "string_type": "text is needed",
    "string_sub_type": "text is needed",
    "string_too_short": "at least {min_length} characters are needed",
    "string_too_long": "at most {max_length} characters are allowed",
    **dict.fromkeys(("tuple_type", "list_type"), "a list is needed"),
    "too_long": "at most {max_length} items are allowed",
    **dict.fromkeys(("dict_type", "mapping_type", "model_type"), "a section is needed"),
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "one of these is needed: {expected}",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: the dotted path of the key, a stable code, and words."""

    path: str
    code: str
    detail: str

    def __str__(self) -> str:
        path = self.path if self.path.isprintable() else json.dumps(self.path)
        return f"{path}: {self.detail} ({self.code})"


class SettingsError(Exception):
    """The configuration cannot be used. `faults` names everything that is wrong, a line each."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = faults


def dotted(parts: Iterable[str | int]) -> str:
    """Spell a path as TOML does: `queues."a.b".attempts_max`."""
    words = [str(part) for part in parts]
    return ".".join(word if _BARE.fullmatch(word) else json.dumps(word)[:300] for word in words)


def unknown_name(path: str, *, name: str, known: Iterable[str]) -> Fault:
    """Say that nobody knows this name, which one was probably meant, and which there are."""
    names = sorted(known)
    near = difflib.get_close_matches(name[:80], names, n=1)
    meant = f", did you mean {near[0]}?" if near else ""
    listed = ", ".join(names[:_KNOWN_MAX]) or "none"
    return Fault(path, "unknown_name", f"unknown name{meant}; known here: {listed}")


def explain(
    error: ValidationError,
    *,
    model: type[BaseModel],
    at: Sequence[str] = (),
    also_known: Iterable[str] = (),
) -> tuple[Fault, ...]:
    """Turn what pydantic found about `model`, which stands at the path `at`, into faults.

    `also_known` are names beside the model's own that are known at its top. A model may name keys
    that are documented and not built yet in a class attribute `not_built`.
    """
    faults: list[Fault] = []
    for found in error.errors(include_url=False, include_input=False):
        location = [part for part in found["loc"] if part != "[key]"]
        path = dotted([*at, *location])
        if found["type"] != "extra_forbidden":
            code = "missing" if found["type"] == "missing" else "invalid"
            code = found["type"] if found["type"] == "not_supported" else code
            words = _WORDS.get(found["type"])
            said = words.format(**found.get("ctx", {})) if words else found["msg"]
            faults.append(Fault(path, code, said.removeprefix("Value error, ")))
            continue
        name, owner = str(location[-1]), _model_at(model, location[:-1])
        if name in getattr(owner, "not_built", ()):
            faults.append(Fault(path, "not_supported", "this feature is not built yet"))
        else:
            known = {*owner.model_fields} if owner else set[str]()
            extra = also_known if owner is model else ()
            faults.append(unknown_name(path, name=name, known=known.union(extra)))
    return tuple(faults)


def _model_at(model: type[BaseModel], location: Sequence[str | int]) -> type[BaseModel] | None:
    here: object = model
    for part in location:
        if isinstance(here, type) and issubclass(here, BaseModel):
            field = here.model_fields.get(str(part))
            here = field.annotation if field else None
        else:
            # A mapping from names to models: the last argument is what every name leads to.
            here = (get_args(here) or (None,))[-1]
    return here if isinstance(here, type) and issubclass(here, BaseModel) else None
