"""Plants a bug: a changed statement or a replaced function of the service, in this process, until it is taken out."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from app.engine.statements import parse


@dataclass(frozen=True, slots=True)
class Edit:
    """Other words in a statement of a verb's module. Every old text must be there, wherever it is."""

    module: ModuleType
    statement: str
    words: Mapping[str, str]

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        statements = self.module.SQL
        before = statements[self.statement]
        script = Path(self.module.__file__ or "").with_suffix(".sql").read_text(encoding="utf-8")
        (text,) = (
            part for part in script.split("-- name: ") if part.startswith(self.statement + "\n")
        )
        for old, new in self.words.items():
            assert old in text, f"{self.statement} does not say {old!r}"
            text = text.replace(old, new)
        statements[self.statement] = parse(f"-- name: {text}")[self.statement]
        try:
            yield
        finally:
            statements[self.statement] = before


@dataclass(frozen=True, slots=True)
class Swap:
    """Another function, made of the one that was there."""

    owner: ModuleType | type
    name: str
    make: Callable[[Any], Any]

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        before = getattr(self.owner, self.name)
        setattr(self.owner, self.name, self.make(before))
        try:
            yield
        finally:
            setattr(self.owner, self.name, before)


@dataclass(frozen=True, slots=True)
class Plant:
    """One bug: what it is, and the changes that make it."""

    what: str
    changes: Sequence[Edit | Swap]

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """The service has this bug inside the context."""
        with contextlib.ExitStack() as stack:
            for change in self.changes:
                stack.enter_context(change.planted())
            yield
