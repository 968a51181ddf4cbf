"""Everything a caller can be told, named for what the caller should do about it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a request: where (an RFC 6901 pointer) and a stable code."""

    pointer: str
    code: str
    detail: str = ""


class SinksweepError(Exception):
    """The base of what is expected to go wrong."""


class InvalidContent(SinksweepError):
    """The request is well-formed HTTP, and its content cannot be taken. Nothing was changed."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(
            "; ".join(f"{problem.pointer or '/'}: {problem.code}" for problem in problems)
        )
        self.problems = problems


class NotReady(SinksweepError):
    """Something that is needed is not there at the moment. Try again later; nothing was changed."""

    def __init__(self, code: str, detail: str, *, retry_after_seconds: int = 1) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.retry_after_seconds = retry_after_seconds
