"""Pages for people, which come from elsewhere as they are. What a browser may do with them is said here."""

from collections.abc import Mapping, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from app.api.calls import PUBLIC, Api, Call
from app.engine.keys import Principal

Pages = Mapping[str, tuple[str, bytes]]

# Nothing but what this service has: no script or style in a page, no frame around it, no markup made of strings.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


def page_calls(pages: Pages) -> Sequence[Call]:
    """A call for each page, by its path: anybody may make it, and it changes nothing."""
    return [_page_call(path, media_type, body) for path, (media_type, body) in pages.items()]


def _page_call(path: str, media_type: str, body: bytes) -> Call:
    async def show_page(_api: Api, _request: Request, _principal: Principal) -> Response:
        return Response(body, headers={**_HEADERS, "Content-Type": media_type})

    return Call(
        method="GET",
        path=path,
        handler=show_page,
        scopes=PUBLIC,
        summary="A page for people.",
        answers={200: None},
    )
