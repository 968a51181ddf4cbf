"""What a message says, read the same way at the seal and at every attempt.

An agent may send a JSON object as a provider documents it, a JSON string or plain text: the last two are `{"text": …}`.
"""

import json
from collections.abc import Collection, Mapping
from typing import Final

from app.domain.errors import InvalidContent, Problem

_TEXT: Final = "text/plain"
_JSON: Final = "application/json"


def read_content(content_type: str, body: bytes) -> dict[str, object]:
    """The object that a message is; raises `InvalidContent`, pointing at its payload."""
    kind = content_type.partition(";")[0].strip().lower()
    try:
        match kind:
            case "text/plain":
                value: object = body.decode()
            case "application/json":
                value = json.loads(body)
                # Half a character has no bytes, wherever it stands.
                json.dumps(value, ensure_ascii=False).encode()
            case _:
                detail = f"this destination takes {_JSON} and {_TEXT}"
                raise InvalidContent(Problem("/content_type", "content_type_invalid", detail))
    except (ValueError, RecursionError):
        raise InvalidContent(Problem("/payload", "payload_unreadable")) from None
    match value:
        case str():
            return {"text": value}
        case dict():
            return value
        case _:
            detail = "an object, a string or plain text is needed"
            raise InvalidContent(Problem("/payload", "wrong_type", detail))


class Reading:
    """The fields of a message's content. What is wrong is collected in `problems`, pointed at within the message."""

    def __init__(self, content: Mapping[str, object]) -> None:
        self.content = content
        self.problems: list[Problem] = []

    def refuse(self, name: str, code: str, detail: str = "") -> None:
        """Note that something is wrong with a field."""
        spelled = name.replace("~", "~0").replace("/", "~1")
        self.problems.append(Problem(f"/payload/{spelled}", code, detail))

    def check(self) -> None:
        """Raise `InvalidContent` if anything was wrong."""
        if self.problems:
            raise InvalidContent(*self.problems)

    def only(self, names: Collection[str]) -> None:
        """Refuse every field that is not one of `names`: where a message goes is not for its content to say."""
        for name in self.content:
            if name not in names:
                self.refuse(
                    name[:255], "field_not_allowed", f"known here: {', '.join(sorted(names))}"
                )

    def text(self, name: str, *, most: int, required: bool = False) -> str | None:
        """A string of 1 to `most` characters; None when it is absent or wrong."""
        value = self.content.get(name)
        if value is None:
            if required:
                self.refuse(name, "required")
            return None
        if not isinstance(value, str):
            self.refuse(name, "wrong_type", "a string is needed")
        elif not value.strip():
            self.refuse(name, "text_empty")
        elif len(value) > most:
            self.refuse(name, "text_too_long", f"at most {most} characters")
        else:
            return value
        return None

    def items(self, name: str, *, most: int) -> list[object]:
        """A list of at most `most` things; empty when it is absent or wrong."""
        value = self.content.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.refuse(name, "wrong_type", "a list is needed")
        elif len(value) > most:
            self.refuse(name, "too_many", f"at most {most}")
        else:
            return value
        return []
