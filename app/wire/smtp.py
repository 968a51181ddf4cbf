"""One mail to one mail server (RFC 5321), over a guarded connection: sent at most once, within one deadline.

A password is given over TLS alone. Whatever breaks before the last dot has not been accepted; from then on only the
server's answer says whether it was.
"""

import asyncio
import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from app.wire.client import GuardedClient
from app.wire.exchange import Cut, NotSent
from app.wire.reach import Streams
from app.wire.resolution import Refused

Security = Literal["starttls", "tls", "none"]
Stage = Literal[
    "greeting", "hello", "tls", "login", "sender", "recipient", "data", "content", "ready"
]

REPLY_LINES_MAX: Final = 100

_LINE: Final = re.compile(rb"([2-5][0-9]{2})(?:([ -])([^\r\n]*))?\r?\n")
_STAGE_CODES: Final = {"data": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """Where mail is handed over. `hello` is the name that we give ourselves; without a login none is made."""

    host: str
    port: int
    security: Security
    hello: str
    login: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Envelope:
    """A mail with where it is from and where it goes, both plain addresses."""

    sender: str
    recipient: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Replied:
    """What a server said last, and at which stage: `content` with a 2xx is the acceptance of the mail."""

    stage: Stage
    code: int
    text: bytes

    @property
    def is_accepted(self) -> bool:
        """Whether the server has taken what it was asked for, to the end."""
        return self.code // 100 == 2 and self.stage in {"content", "ready"}  # noqa: PLR2004


class _Said(Exception):
    """The server did not go along: `reply` is why not."""

    def __init__(self, reply: Replied) -> None:
        super().__init__(reply.stage)
        self.reply = reply


async def hand_over(
    http: GuardedClient, server: MailServer, envelope: Envelope | None, *, timeout_seconds: float
) -> Replied | NotSent | Cut:
    """Hand one mail over, or without one see only whether it could be. Nothing expected is raised."""
    talk = _Talk(server)
    try:
        async with asyncio.timeout(timeout_seconds):
            return await talk.through(http, envelope)
    except _Said as said:
        return said.reply
    except TimeoutError:
        return Cut("timeout") if talk.dotted else NotSent("timeout_before_send")
    except Refused as refused:
        return NotSent(refused.reason)
    except (OSError, EOFError):
        return Cut("connection_cut") if talk.dotted else NotSent("connection_cut_before_send")
    except (asyncio.LimitOverrunError, ValueError):
        return Cut("malformed_answer") if talk.dotted else NotSent("malformed_answer")
    finally:
        talk.close()


class _Talk:
    """One conversation with a server. `dotted`: the end of the mail may have been written."""

    def __init__(self, server: MailServer) -> None:
        self._server = server
        self._streams: Streams | None = None
        self.dotted = False

    def close(self) -> None:
        """Leave without waiting for the other side to let go."""
        if self._streams is not None:
            self._streams[1].transport.abort()

    async def through(self, http: GuardedClient, envelope: Envelope | None) -> Replied:
        server = self._server
        self._streams = await http.connect(server.host, server.port)
        if server.security == "tls":
            await http.upgrade(self._streams[1], host=server.host)
        await self._reply("greeting")
        able = await self._hello()
        if server.security == "starttls":
            if "STARTTLS" not in able:
                raise Refused("starttls_not_offered")
            await self._ask("tls", "STARTTLS")
            await self._nothing_more()
            await http.upgrade(self._streams[1], host=server.host)
            able = await self._hello()
        if server.login is not None:
            await self._login(server.login, able.get("AUTH", "").upper().split())
        if envelope is None:
            return Replied("ready", 250, b"")
        size = f" SIZE={len(envelope.content)}" if "SIZE" in able else ""
        await self._ask("sender", f"MAIL FROM:<{envelope.sender}>{size}")
        await self._ask("recipient", f"RCPT TO:<{envelope.recipient}>")
        await self._ask("data", "DATA")
        return await self._content(envelope.content)

    async def _hello(self) -> dict[str, str]:
        """What the server says that it can do: names in capitals, with their parameters."""
        lines = (await self._ask("hello", f"EHLO {self._server.hello}")).text.split(b"\n")[1:]
        words = (line.decode("ascii", "replace").strip().partition(" ") for line in lines)
        return {name.upper(): rest for name, _, rest in words}

    async def _login(self, login: tuple[str, str], ways: Sequence[str]) -> None:
        user, password = login
        if "PLAIN" in ways:
            await self._ask("login", f"AUTH PLAIN {_encoded(f'{chr(0)}{user}{chr(0)}{password}')}")
        elif "LOGIN" in ways:
            await self._ask("login", "AUTH LOGIN", wants=3)
            await self._ask("login", _encoded(user), wants=3)
            await self._ask("login", _encoded(password))
        else:
            raise Refused("login_not_offered")

    async def _content(self, content: bytes) -> Replied:
        lines = content if content.endswith(b"\r\n") else content + b"\r\n"
        stuffed = lines.replace(b"\r\n.", b"\r\n..")
        await self._write(b"." + stuffed if stuffed.startswith(b".") else stuffed)
        # Without this line the server takes nothing.
        self.dotted = True
        await self._write(b".\r\n")
        reply = await self._reply("content")
        await self._write(b"QUIT\r\n")
        return reply

    async def _ask(self, stage: Stage, line: str, *, wants: int | None = None) -> Replied:
        if not line.isascii() or not line.isprintable():
            raise ValueError("a line of ours holds what none may")
        await self._write(line.encode() + b"\r\n")
        return await self._reply(stage, wants=wants)

    async def _write(self, data: bytes) -> None:
        assert self._streams is not None  # noqa: S101 - the first thing that is done
        self._streams[1].write(data)
        await self._streams[1].drain()

    async def _reply(self, stage: Stage, *, wants: int | None = None) -> Replied:
        """Read one reply; raises `_Said` where it is not the one that lets the conversation go on."""
        assert self._streams is not None  # noqa: S101 - the first thing that is done
        texts: list[bytes] = []
        for _ in range(REPLY_LINES_MAX):
            line = await self._streams[0].readuntil(b"\n")
            parts = _LINE.fullmatch(line)
            if parts is None:
                raise ValueError("not a line of a reply")
            texts.append(parts[3] or b"")
            if parts[2] != b"-":
                reply = Replied(stage, int(parts[1]), b"\n".join(texts))
                if reply.code // 100 != (wants or _STAGE_CODES.get(stage, 2)):
                    raise _Said(reply)
                return reply
        raise ValueError("a reply without an end")

    async def _nothing_more(self) -> None:
        """What came before the TLS that it should be within was put there by somebody between."""
        assert self._streams is not None  # noqa: S101 - the first thing that is done
        try:
            async with asyncio.timeout(0):
                early = await self._streams[0].read(1)
        except TimeoutError:
            return
        raise ValueError("something came before TLS") if early else EOFError


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
