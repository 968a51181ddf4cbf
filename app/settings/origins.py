"""Every setting as it holds, with where its value came from. Secrets are masked; a pointer to one is shown."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import SecretStr

from app.settings.faults import dotted
from app.settings.shape import Settings
from app.settings.sources import read_layers

MASK: Final = "***"
_POINTERS: Final = ("env:", "file:")


@dataclass(frozen=True, slots=True)
class Shown:
    """One key: its dotted path, its value as JSON knows it, and where that came from.

    `origin` is `flag`, `environment`, `file`, `assumed` or `default`.
    """

    path: str
    value: object
    origin: str


def show_settings(
    settings: Settings,
    *,
    overrides: Mapping[str, object],
    environ: Mapping[str, str] | None = None,
    assumed: Mapping[str, object] | None = None,
) -> list[Shown]:
    """Each key of loaded settings; the sources are those that they were loaded from."""
    environ = os.environ if environ is None else environ  # noqa: TID251 - the one reader
    layers, _ = read_layers(overrides, environ=environ, assumed=assumed)
    trees = {name: source() for name, source in layers.items()}
    return [_shown(path, value, trees) for path, value in _leaves(settings.model_dump(mode="json"))]


def _leaves(tree: Mapping[str, object], *above: str) -> Iterator[tuple[tuple[str, ...], object]]:
    for name, value in tree.items():
        # What a kind is told stands beside the keys of its source or destination, as in the file.
        of_kind = name == "options" and above[:1] in (("destinations",), ("sources",))
        at = above if of_kind else (*above, name)
        if isinstance(value, Mapping) and (value or at == above):
            yield from _leaves(value, *at)
        else:
            yield at, value


def _shown(
    path: tuple[str, ...], value: object, trees: Mapping[str, Mapping[str, object]]
) -> Shown:
    for name, tree in trees.items():
        found, written = _find(tree, path)
        if found:
            return Shown(dotted(path), _masked(value, written), name)
    return Shown(dotted(path), value, "default")


def _find(tree: object, path: tuple[str, ...]) -> tuple[bool, object]:
    for part in path:
        if not isinstance(tree, Mapping) or part not in tree:
            return False, None
        tree = tree[part]
    return True, tree


def _masked(value: object, written: object) -> object:
    """A secret that was written as a pointer is shown as one: what it led to was read and is not."""
    text = written.get_secret_value() if isinstance(written, SecretStr) else written
    if isinstance(value, str) and value and not value.strip("*"):
        pointed = isinstance(text, str) and text.startswith(_POINTERS)
        return text if pointed else MASK
    return value
