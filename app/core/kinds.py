"""What a configuration says of one kind, a channel's or a provider's, checked by that kind itself."""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from app.settings import Destination, SettingsError, Source, dotted, explain, unknown_name


class Kind(Protocol):
    """What can be configured."""

    @property
    def Config(self) -> type[BaseModel]:  # noqa: N802 - it is a class
        """What it is configured with."""
        ...


KindT = TypeVar("KindT", bound=Kind)


def read_kind(
    known: Mapping[str, KindT], policy: Destination | Source, *, at: tuple[str, str]
) -> tuple[KindT, BaseModel]:
    """The kind of the destination or the source that stands `at` this place, and its own part of it.

    Raises `SettingsError` for a kind that nobody knows, and with everything that it finds wrong.
    """
    kind = known.get(policy.kind)
    if kind is None:
        path = dotted([*at, "kind"])
        raise SettingsError(unknown_name(path, name=policy.kind, known=known))
    try:
        return kind, kind.Config.model_validate(dict(policy.options))
    except ValidationError as error:
        own = type(policy).model_fields.keys() - {"options"}
        faults = explain(error, model=kind.Config, at=at, also_known=own)
        raise SettingsError(*faults) from None
