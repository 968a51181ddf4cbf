"""Media types: what is JSON by its own word, and is."""

from typing import Final

from app.domain.json_grammar import is_strict_json

JSON: Final = "application/json"


def reads_as_json(body: bytes, *, content_type: str) -> bool:
    """Whether a body may stand in an answer as it is: it says that it is JSON, and is."""
    return is_json_type(content_type) and is_strict_json(body)


def is_json_type(content_type: str) -> bool:
    """Whether a content type names JSON."""
    media = content_type.partition(";")[0].strip().lower()
    return media == JSON or (media.endswith("+json") and media.startswith("application/"))
