"""Errors as RFC 9457 documents with a stable code. One total table; nothing internal ever reaches an answer."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from app.api.answers import to_json
from app.api.codes import CONTENT_CODES, REQUEST_CODES
from app.domain.errors import InvalidContent, NotReady, Problem, SinksweepError

MEDIA_TYPE: Final = "application/problem+json"
CLIENT_GONE_STATUS: Final = 499
_RETRY_AFTER: Final = "Retry-After"

log = logging.getLogger(__name__)


class Refusal(SinksweepError):
    """A request that is answered with a code of its own; `members` are added to the document."""

    def __init__(
        self,
        code: str,
        *,
        detail: str | None = None,
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail
        self.headers = headers or {}
        self.members = members or {}


def queue_not_configured() -> Refusal:
    """What the queue says is not known here: another replica may know it, or this one soon."""
    return Refusal("queue_not_configured", headers={"Retry-After": "5"})


class ClientGone(SinksweepError):
    """Nobody is there to be answered."""


def answer_error(error: Exception) -> Response:
    """Translate what went wrong; anything unexpected is logged by its type and answered as 500."""
    match error:
        case Refusal():
            return problem(
                error.code, detail=error.detail, headers=error.headers, members=error.members
            )
        case InvalidContent():
            return _invalid(error)
        case NotReady():
            headers = {_RETRY_AFTER: str(error.retry_after_seconds)}
            return _document(
                HTTPStatus.SERVICE_UNAVAILABLE, error.code, detail=error.detail, headers=headers
            )
        case ClientGone():
            # Never sent: it only gives the request a status in the metrics.
            return Response(status_code=CLIENT_GONE_STATUS)
        case HTTPException():
            return _from_framework(error)
        case RequestValidationError():
            return _invalid(InvalidContent(Problem("", "wrong_type")))
        case _:
            log.error("request failed", exc_info=error, extra={"error": type(error).__name__})
            return problem("internal_error")


def problem(
    code: str,
    *,
    detail: str | None = None,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    members: Mapping[str, object] | None = None,
) -> Response:
    """Answer with one of the request codes, and its status unless another one is wanted."""
    known = REQUEST_CODES[code]
    return _document(
        status or known.status,
        code,
        detail=detail or known.detail,
        headers=headers,
        members=members,
    )


def _invalid(error: InvalidContent) -> Response:
    problems = error.problems
    only = problems[0] if len(problems) == 1 else None
    code = only.code if only else "invalid_content"
    detail = _words(only) if only else REQUEST_CODES["invalid_content"].detail
    errors = [{"pointer": one.pointer, "code": one.code, "detail": _words(one)} for one in problems]
    return _document(
        HTTPStatus.UNPROCESSABLE_ENTITY, code, detail=detail, members={"errors": errors}
    )


def _words(one: Problem) -> str:
    return one.detail or CONTENT_CODES.get(one.code, "")


def _from_framework(error: HTTPException) -> Response:
    headers = dict(error.headers or {})
    match error.status_code:
        case 404:
            return problem("not_found", detail="There is no such path; see /openapi.json.")
        case 405:
            allowed = headers.get("Allow", "")
            # What answers GET answers HEAD.
            headers["Allow"] = f"{allowed}, HEAD" if allowed == "GET" else allowed
            return problem("method_not_allowed", headers=headers)
        case 413:
            return problem("body_too_large", headers=headers)
        case status if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return problem("bad_request")
        case _:
            return problem("internal_error")


def _document(
    status: int,
    code: str,
    *,
    detail: str,
    headers: Mapping[str, str] | None = None,
    members: Mapping[str, object] | None = None,
) -> Response:
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "code": code,
        "detail": detail,
        **(members or {}),
    }
    return Response(to_json(body), status, headers, MEDIA_TYPE)
