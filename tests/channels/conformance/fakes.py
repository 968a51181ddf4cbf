"""Providers on loopback that write down what they are sent, and answer what a test wants."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from aiosmtpd.smtp import SMTP, Envelope

NEVER = None


@dataclass(frozen=True, slots=True)
class Said:
    """One request. Header names are lower case; `path` has its query."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> object:
        return json.loads(self.body)

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), strict_parsing=True, keep_blank_values=True))


@dataclass(slots=True)
class HttpFake:
    """Answers the n-th request with the n-th of `answers`, the last one again and again; None never answers."""

    port: int = 0
    answers: list[bytes | None] = field(default_factory=list)
    requests: list[Said] = field(default_factory=list)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ")
            pairs = (line.split(": ", 1) for line in head[1:] if line)
            headers = {name.lower(): value for name, value in pairs}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.requests.append(Said(method, path, headers, body))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if answer is NEVER:
                await reader.read()
            else:
                writer.write(answer)
                await writer.drain()
        writer.close()


def answer(status: int, body: object = b"", **headers: str) -> bytes:
    """One answer over HTTP; anything but bytes is sent as JSON. `retry_after` is `Retry-After`."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Whatever", "Connection: close", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


@asynccontextmanager
async def http_fake(*answers: bytes | None) -> AsyncIterator[HttpFake]:
    """A running stand-in for a provider's API."""
    fake = HttpFake(answers=list(answers) or [answer(200)])
    listener = await asyncio.start_server(fake.talk, "127.0.0.1", 0)
    fake.port = listener.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        listener.close()


@dataclass(frozen=True, slots=True)
class Letter:
    """One mail as a server took it."""

    sender: str
    recipients: tuple[str, ...]
    body: bytes


# The mail server looks at every member of its handler, which older Pythons cannot do to one with slots.
@dataclass
class MailFake:
    """A mail server: a real one, or one that says `script` whatever it is told, a reply for each command."""

    port: int = 0
    script: bytes | None = b""
    requests: list[Letter] = field(default_factory=list)
    heard: list[bytes] = field(default_factory=list)

    async def handle_DATA(self, _server: object, _session: object, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        letter = Letter(envelope.mail_from or "", tuple(envelope.rcpt_tos), envelope.content)
        self.requests.append(letter)
        return "250 2.0.0 Ok: queued as 4F2A"

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            if self.script is NEVER:
                await reader.read()
            for reply in (self.script or b"").split(b"|"):
                writer.write(reply)
                await writer.drain()
                if reply.startswith(b"354"):
                    self.heard.append(await reader.readuntil(b"\r\n.\r\n"))
                elif not reply.endswith(b"!"):
                    self.heard.append(await reader.readline())
        writer.close()


# A script that is a whole conversation is what a test wants of a real server.
REAL = b"real"


@asynccontextmanager
async def mail_fake(*answers: bytes | None, **settings: Any) -> AsyncIterator[MailFake]:
    """A running mail server; `settings` are those of the real one."""
    fake = MailFake(script=answers[0])
    loop = asyncio.get_running_loop()
    if fake.script == REAL:
        settings = {"hostname": "mx.example", **settings}
        listener = await loop.create_server(lambda: SMTP(fake, **settings), "127.0.0.1", 0)
    else:
        listener = await asyncio.start_server(fake.talk, "127.0.0.1", 0)
    fake.port = listener.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        listener.close()
