"""Reading a request's body: bounded in bytes and in time, and refused before it is read where that can be told."""

import asyncio
from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.exchange import exchange_of
from app.api.problems import ClientGone, Refusal, problem

# After an early refusal a client that still sends is listened to for a moment, so that closing does not
# destroy the answer on its way.
DISCARD_BYTES_MAX: Final = 64 << 20
DISCARD_SECONDS_MAX: Final = 1.0
_LENGTH_DIGITS_MAX: Final = 18
_PLAIN_JSON: Final = [b"application/json"]


class TooLarge(Refusal):
    """The body is over the limit, and what is left of it was not read."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__("body_too_large", detail=f"The body has at most {bytes_max} bytes.")


async def read_json_body(request: Request, *, bytes_max: int, seconds_max: float) -> bytes:
    """Read the whole body of a request that says it is JSON; raises `Refusal` or `ClientGone`."""
    types = [value for name, value in request.scope["headers"] if name == b"content-type"]
    if types != _PLAIN_JSON:
        _check_type(types)
    return await read_body(request, bytes_max=bytes_max, seconds_max=seconds_max)


async def read_body(request: Request, *, bytes_max: int, seconds_max: float) -> bytes:
    """Read the whole body of a request, whatever it is; raises `Refusal` or `ClientGone`."""
    for name, value in request.scope["headers"]:
        if name == b"content-encoding":
            _check_encoding(value)
        elif name == b"content-length":
            _check_length(value, bytes_max)
    # Most are here before anybody asks for them.
    whole = exchange_of(request).whole_body(bytes_max)
    if whole is not None:
        return whole
    try:
        async with asyncio.timeout(seconds_max):
            return await _read(request, bytes_max)
    except TimeoutError:
        raise Refusal("request_timeout", headers={"Connection": "close"}) from None


async def _read(request: Request, bytes_max: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > bytes_max:
            raise TooLarge(bytes_max)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def _check_encoding(value: bytes) -> None:
    if value.strip().lower() not in (b"", b"identity"):
        raise Refusal("content_encoding_unsupported", headers={"Accept-Encoding": "identity"})


def _check_type(types: Sequence[bytes]) -> None:
    """No content type at all is taken for JSON: what is no JSON is refused by its reader."""
    if not types:
        return
    media, *parameters = (part.strip().lower() for part in types[0].decode("latin-1").split(";"))
    known = media == "application/json" or (
        media.startswith("application/") and media.endswith("+json")
    )
    charsets = [part.removeprefix("charset=") for part in parameters if "charset" in part]
    if len(types) > 1 or not known or any(one.strip('"') != "utf-8" for one in charsets):
        raise Refusal("content_type_unsupported", headers={"Accept": "application/json"})


def _check_length(value: bytes, bytes_max: int) -> None:
    value = value.strip()
    if not value.isdigit():
        raise Refusal("bad_request", detail="Content-Length is not a number.")
    if len(value) > _LENGTH_DIGITS_MAX or int(value) > bytes_max:
        raise TooLarge(bytes_max)


class Streamed(Response):
    """An answer that is not written all at once."""


class EarlyAnswer(Streamed):
    """An answer to a request whose body was not read to its end: then the connection closes."""

    def __init__(self, error: Refusal) -> None:
        headers = {**error.headers, "Connection": "close"}
        answer = problem(error.code, detail=error.detail, headers=headers)
        super().__init__(answer.body, answer.status_code, dict(answer.headers))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Answer at once, then listen for a moment."""
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        left = DISCARD_BYTES_MAX
        try:
            async with asyncio.timeout(DISCARD_SECONDS_MAX):
                while left > 0:
                    message = await receive()
                    left -= len(message.get("body", b""))
                    if message["type"] != "http.request" or not message.get("more_body", False):
                        break
        except TimeoutError:
            pass
        await send({"type": "http.response.body", "body": b""})
