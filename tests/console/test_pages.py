"""The pages themselves: the same for everybody, without data, and with nothing that a browser may be talked into."""

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import app.console
from app.api.application import build_application
from app.api.calls import CallRoute
from app.console import PAGES
from tests.api.conftest import Service
from tests.console.conftest import held

if TYPE_CHECKING:
    from tests.database import Admin

HANDLE = "turn_" + "0" * 26
PATHS = [path.replace("{handle}", HANDLE) for path in PAGES]
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
# What would make markup of a text, or run it.
SINKS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc|javascript:"
)
STORES = re.compile(r"localStorage|sessionStorage|indexedDB|document\.cookie|\bcaches\b")


@pytest.mark.parametrize("path", PATHS)
async def test_a_page_may_do_next_to_nothing(service: Service, path: str) -> None:
    answer = await service.get(path, scope=None)
    assert answer.status == 200
    policy = dict(
        part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; ")
    )
    assert policy == POLICY
    for name, value in (
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("X-Frame-Options", "DENY"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cache-Control", "no-store"),
    ):
        assert answer.headers[name] == value
    assert answer.headers.getall("X-Content-Type-Options") == ["nosniff"]  # type: ignore[attr-defined]
    assert "Set-Cookie" not in answer.headers


async def test_the_page_is_the_same_whatever_it_is_asked_about(
    service: Service, admin: "Admin"
) -> None:
    sealed = await held(service, [{"destination": "loopback", "payload": "a secret"}])
    events = await admin.fetchval("select count(*) from sink.event")
    known = f"/console/turns/{sealed['turn']}?hash={sealed['payload_hash']}"
    bodies = set()
    for path in (
        known,
        f"/console/turns/{HANDLE}",
        "/console/turns/nonsense?decision=approve&by=x",
    ):
        for scope in (None, "approve"):
            answer = await service.get(path, scope=scope)
            assert answer.status == 200
            bodies.add(answer.body)
        head = await service.call("HEAD", path, scope="approve")
        assert (head.status, head.body) == (200, b"")
        for method in ("POST", "PUT", "DELETE"):
            assert (await service.call(method, path, scope="approve")).status == 405
    assert len(bodies) == 1
    # Whoever follows links in mails decides nothing.
    assert (await service.get(f"/v1/turns/{sealed['turn']}")).json["state"] == "held"
    assert await admin.fetchval("select count(*) from sink.event") == events


async def test_other_paths_are_not_there(service: Service) -> None:
    for path in ("/console", "/console/", "/console/turns/", "/console/../app/__init__.py",
                 "/console/decide.html", f"/console/turns/{HANDLE}/x", "/console/%2e%2e/pyproject.toml"):  # fmt: skip
        assert (await service.get(path, scope=None)).status == 404, path


def test_no_page_makes_markup_of_a_text_or_keeps_anything() -> None:
    folder = Path(app.console.__file__).parent
    for path in folder.iterdir():
        if path.suffix not in (".js", ".html", ".css"):
            continue
        text = path.read_text()
        assert not SINKS.search(text), path
        assert not STORES.search(text), path
        assert not re.search(r"https?://|//[a-z]+\.", text), path
    page = (folder / "decide.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son[a-z]+=|\sstyle=", page)


def test_every_file_beside_the_pages_is_served() -> None:
    folder = Path(app.console.__file__).parent
    files = {
        path.read_bytes() for path in folder.iterdir() if path.suffix in (".js", ".html", ".css")
    }
    assert files == {body for _, body in PAGES.values()}


async def test_only_who_serves_the_api_serves_pages(service: Service) -> None:
    async with asyncio.TaskGroup() as tasks:
        without = build_application(service.core, tasks=tasks, api=False, pages=PAGES)
    paths = {route.path for route in without.routes if isinstance(route, CallRoute)}
    assert "/livez" in paths
    assert not paths & set(PAGES)
