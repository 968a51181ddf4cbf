"""A name server on loopback that says what a test wants, over UDP, and a system that asks it and nobody else."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

A, CNAME, AAAA = 1, 5, 28
_TYPES = {"A": A, "AAAA": AAAA, "CNAME": CNAME}
_FAMILIES = ((A, socket.AF_INET), (AAAA, socket.AF_INET6))
_ANSWER, _SERVER_FAILED, _NO_SUCH_NAME = 0x8180, 0x8182, 0x8183
_HEADER = struct.Struct("!6H")
_RECORD = struct.Struct("!HHIH")
ANSWER_SECONDS_MAX = 10.0

# A type, what it says, and how long that may be kept.
Record = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Says:
    """An answer: records, or that something failed; after a while, or never."""

    records: Sequence[Record] = ()
    after_seconds: float = 0.0
    silent: bool = False
    failed: bool = False


def to(*addresses: str, ttl: int = 60) -> Says:
    """An answer of plain addresses."""
    kinds = ("A" if ip_address(one).version == 4 else "AAAA" for one in addresses)
    return Says([(kind, one, ttl) for kind, one in zip(kinds, addresses, strict=True)])


@dataclass(slots=True)
class NameServer:
    """The server: each look-up of a name takes its next answer, the last one for ever. Both families ask at once."""

    zone: Mapping[str, Sequence[Says]]
    port: int = 0
    asked: Counter[tuple[str, int]] = field(default_factory=Counter)

    def answer(self, question: bytes) -> tuple[bytes | None, float]:
        """The answer to a question, or None for silence, and when to give it."""
        number = question[:2]
        name, end = _read_name(question, _HEADER.size)
        kind = int.from_bytes(question[end : end + 2])
        asked = question[_HEADER.size : end + 4]
        says = self._next(name, kind)
        if says is None or says.failed:
            flags = _SERVER_FAILED if says else _NO_SUCH_NAME
            return number + _HEADER.pack(0, flags, 1, 0, 0, 0)[2:] + asked, 0.0
        if says.silent:
            return None, 0.0
        records = self._records(name, says, kind)
        head = number + _HEADER.pack(0, _ANSWER, 1, len(records), 0, 0)[2:]
        return head + asked + b"".join(records), says.after_seconds

    def _next(self, name: str, kind: int) -> Says | None:
        answers = self.zone.get(name)
        before = self.asked[name, kind]
        self.asked[name, kind] += 1
        return None if answers is None else answers[min(before, len(answers) - 1)]

    def _records(self, name: str, says: Says, kind: int) -> list[bytes]:
        """What was asked for, behind every alias on the way."""
        found: list[bytes] = []
        for type_name, value, ttl in says.records:
            if type_name == "CNAME":
                found.append(_record(name, CNAME, ttl, _name(value)))
                for behind in self.zone.get(value, ())[:1]:
                    found += self._records(value, behind, kind)
            elif _TYPES[type_name] == kind:
                found.append(_record(name, kind, ttl, ip_address(value).packed))
        return found

    def getaddrinfo(self, host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        """What the system's resolver would make of this server's answers, in its form. Keeps nothing."""
        found: list[tuple[Any, ...]] = []
        for kind, family in _FAMILIES:
            for packed in self._ask(host, kind):
                place = (str(ip_address(packed)), port)
                found.append((family, socket.SOCK_STREAM, 6, "", place))
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return found

    def _ask(self, host: str, kind: int) -> list[bytes]:
        question = _HEADER.pack(7, 0x0100, 1, 0, 0, 0) + _name(host) + struct.pack("!HH", kind, 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(ANSWER_SECONDS_MAX)
            client.sendto(question, ("127.0.0.1", self.port))
            try:
                answer = client.recv(4096)
            except TimeoutError:
                raise socket.gaierror(socket.EAI_AGAIN, "nobody answered") from None
        _, flags, _, count, _, _ = _HEADER.unpack_from(answer)
        if flags != _ANSWER:
            raise socket.gaierror(socket.EAI_FAIL, "no")
        at = _read_name(answer, _HEADER.size)[1] + 4
        found: list[bytes] = []
        for _ in range(count):
            _, at = _read_name(answer, at)
            type_number, _, _, length = _RECORD.unpack_from(answer, at)
            at += _RECORD.size + length
            if type_number == kind:
                found.append(answer[at - length : at])
        return found


def _name(name: str) -> bytes:
    labels = (label.encode() for label in name.split("."))
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def _read_name(message: bytes, at: int) -> tuple[str, int]:
    labels: list[str] = []
    while length := message[at]:
        labels.append(message[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return ".".join(labels), at + 1


def _record(name: str, kind: int, ttl: int, data: bytes) -> bytes:
    return _name(name) + _RECORD.pack(kind, 1, ttl, len(data)) + data


class _Protocol(asyncio.DatagramProtocol):
    def __init__(self, server: NameServer) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        answer, after_seconds = self._server.answer(data)
        if answer is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(after_seconds, self._send, answer, addr)

    def _send(self, answer: bytes, addr: tuple[str, int]) -> None:
        if not self._transport.is_closing():
            self._transport.sendto(answer, addr)


@asynccontextmanager
async def naming(zone: Mapping[str, Sequence[Says]]) -> AsyncIterator[NameServer]:
    """A running name server."""
    server = NameServer(zone)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: _Protocol(server), local_addr=("127.0.0.1", 0)
    )
    server.port = transport.get_extra_info("sockname")[1]
    try:
        yield server
    finally:
        transport.close()
