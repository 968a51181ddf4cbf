"""A running service, asked over HTTP with a key: its scopes hold here too, and the story names who did what."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from app import VERSION
from app.domain.errors import SinksweepError

if TYPE_CHECKING:
    import aiohttp

    from app.settings.client import Client

# A page may hold little or nothing and still have more behind it.
PAGES_MAX: Final = 10_000
PAGE_MAX: Final = 200

Document = dict[str, Any]


class Refused(SinksweepError):
    """The service said no; its words are the message."""


class Unreachable(SinksweepError):
    """Nobody answers there. Whether anything was done is not known; every call may be repeated."""


@dataclass(frozen=True, slots=True)
class Remote:
    """The service, while it is asked."""

    client: "Client"
    http: "aiohttp.ClientSession"

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Document:
        """Read something; raises `Refused` and `Unreachable`."""
        return await self._call("GET", path, query=query)

    async def post(self, path: str, body: Mapping[str, object] | None = None) -> Document:
        """Have something done; raises `Refused` and `Unreachable`."""
        return await self._call("POST", path, body={} if body is None else body)

    async def items(
        self, path: str, query: Mapping[str, str], *, items_max: int
    ) -> tuple[list[Document], bool]:
        """The first `items_max` of a list, over its pages, and whether there are more."""
        items: list[Document] = []
        asked = dict(query)
        for _ in range(PAGES_MAX):
            asked["limit"] = str(min(PAGE_MAX, items_max - len(items)))
            page = await self.get(path, asked)
            items += page["items"]
            if page["next_cursor"] is None or len(items) >= items_max:
                return items, page["next_cursor"] is not None
            asked["cursor"] = str(page["next_cursor"])
        return items, True

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> Document:
        import aiohttp

        headers = {
            "Authorization": f"Bearer {self.client.key}",
            "User-Agent": f"Sinksweep/{VERSION}",
        }
        try:
            async with self.http.request(
                method,
                self.client.url + path,
                params=query,
                json=body,
                headers=headers,
                allow_redirects=False,
            ) as response:
                content = await response.read()
                status = response.status
        except (aiohttp.ClientError, OSError, ValueError) as error:
            why = str(error) or type(error).__name__
            raise Unreachable(f"{self.client.url} does not answer: {why}") from None
        document = _document(content)
        if status not in (200, 202) or document is None:
            raise Refused(_said(status, document or {}))
        return document


def _document(content: bytes) -> Document | None:
    try:
        document = json.loads(content)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _said(status: int, problem: Mapping[str, Any]) -> str:
    """What a problem says, in one line."""
    code, detail = problem.get("code"), problem.get("detail")
    if not isinstance(code, str):
        return f"answered with status {status}, which is not how this service answers"
    known = ("turn_state", "message_state", "operation_state")
    now = [str(problem[name]) for name in known if problem.get(name)]
    wrong = [
        f"{one.get('pointer')}: {one.get('detail') or one.get('code')}"
        for one in problem.get("errors") or ()
        if isinstance(one, dict) and one.get("pointer")
    ]
    # Of a single problem the detail is the same words without their place.
    said = [] if len(wrong) == 1 else [str(detail)]
    parts = [*said, *(f"It is {state}." for state in now), *wrong]
    if code == "purged" and problem.get("state"):
        parts.append(f"It was {problem['state']}.")
    if code == "already_decided":
        parts.append(
            f"It was {problem.get('decision')}, by {problem.get('by')} at {problem.get('at')}."
        )
    if code == "payload_changed" and problem.get("payload_hash"):
        parts.append(f"It is now {problem['payload_hash']}.")
    return f"{' '.join(parts)} ({status} {code})"
