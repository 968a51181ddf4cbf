"""The processes of the demo: real ones, on loopback, that end with the block that started them.

Agents and the chat also end when this process does, however it ends, because their stdin does; the
service gets a signal, where the platform has one for that.
"""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import app
from app.dev.child import CHILD_ENVIRONMENT, Runner, spawn, stop
from app.dev.demo.agent import Json, call
from app.dev.demo.receiver import HEARD_FILE, SECRET_FILE, SIGNED_PATH
from app.dev.demo.verdict import Heard
from app.domain.errors import SinksweepError

STEP_SECONDS_MAX = 40.0
POLL_SECONDS = 0.02

QUEUE = "shop"
LEASE_SECONDS = 1
_LOG_LINES_SHOWN_MAX = 8
_HERE = Path(__file__).parent


class DemoFailed(SinksweepError):
    """A process of the demo did not do its part; the text says which, and where its log is."""


@dataclass(frozen=True, slots=True)
class Chat:
    """The running receiver: its URL, and the file where it writes what it hears."""

    url: str
    file: Path

    def heard(self, path: str) -> list[Heard]:
        """All that reached this path until now, in order of arrival."""
        if not self.file.exists():
            return []
        # A line without its end is still being written.
        whole = self.file.read_text(encoding="utf-8").rpartition("\n")[0]
        lines: list[Heard] = [json.loads(line) for line in whole.splitlines()]
        return [line for line in lines if line["path"] == path]


@dataclass(frozen=True, slots=True)
class _Program:
    """A running process, and both ends of its pipes."""

    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@dataclass(frozen=True, slots=True)
class Agent:
    """A running agent, and a hand on its life."""

    name: str
    program: _Program

    async def hear(self, what: str) -> Json:
        """Its next report, which must be this one."""
        async with asyncio.timeout(STEP_SECONDS_MAX):
            line = await self.program.reader.readline()
        report: Json = json.loads(line) if line else {"what": "nothing more"}
        if report["what"] != what:
            raise DemoFailed(f"{self.name} was to tell {what!r}, and told {report['what']!r}")
        return report

    async def kill(self) -> None:
        """SIGKILL: it gets no chance to tidy up."""
        self.program.process.kill()
        await self.program.process.wait()

    def go_on(self) -> None:
        """Let it out of its pause."""
        self.program.writer.write(b"\n")


class Service:
    """`sinksweep dev` as a process of its own, on a folder of its own."""

    def __init__(self, server: "subprocess.Popen[bytes]", folder: Path) -> None:
        self._server = server
        self._log = folder / "service.log"
        self._description = folder / "data" / "dev.json"
        self.url = ""
        self.keys: Mapping[str, str] = {}

    async def ready(self) -> None:
        """Wait until it takes work."""
        deadline = time.monotonic() + STEP_SECONDS_MAX
        while not await self._is_ready():
            if self._server.poll() is not None or time.monotonic() >= deadline:
                lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
                shown = "\n".join(lines[-_LOG_LINES_SHOWN_MAX:])
                raise DemoFailed(f"the service did not start:\n{shown}")
            await asyncio.sleep(POLL_SECONDS)

    async def _is_ready(self) -> bool:
        if not self._description.exists():
            return False
        description: Json = json.loads(self._description.read_text(encoding="utf-8"))
        self.url, self.keys = description["url"], description["keys"]
        try:
            status, _ = await asyncio.to_thread(call, f"{self.url}/readyz")
        except OSError:
            return False
        return status == 200  # noqa: PLR2004

    async def ask(
        self, path: str, *, scope: str, body: Json | None = None, idempotency_key: str | None = None
    ) -> tuple[int, Json]:
        """POST a body, or GET without one, with the key of a scope."""
        return await asyncio.to_thread(
            call,
            self.url + path,
            key=self.keys[scope],
            body=body,
            idempotency_key=idempotency_key,
        )


@asynccontextmanager
async def open_chat(folder: Path) -> AsyncIterator[Chat]:
    """Run the receiver; makes the secret that it checks signatures with."""
    secret = "whsec_" + b64encode(secrets.token_bytes(32)).decode()
    descriptor = os.open(folder / SECRET_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(secret)
    async with _open_program("receiver", [str(folder)], folder=folder) as program:
        async with asyncio.timeout(STEP_SECONDS_MAX):
            url = (await program.reader.readline()).decode().strip()
        if not url:
            raise DemoFailed(f"the chat did not start: see {folder / 'receiver.log'}")
        yield Chat(url, folder / HEARD_FILE)


@asynccontextmanager
async def open_agent(task: Json, *, folder: Path) -> AsyncIterator[Agent]:
    """Run an agent on a task; it is killed at the end if it still runs."""
    async with _open_program("agent", [], folder=folder) as program:
        program.writer.write(json.dumps(task).encode() + b"\n")
        yield Agent(task["name"], program)


@asynccontextmanager
async def open_service(folder: Path, *, chat: Chat) -> AsyncIterator[Service]:
    """Start the service; at the end it drains. It is not ready yet."""
    configuration = folder / "sinksweep.toml"
    configuration.write_text(_configuration(folder, chat=chat), encoding="utf-8")
    options = ["--config", str(configuration), "--data-dir", str(folder / "data"), "--port", "0"]
    # Found where this process found it, installed or not.
    path = os.pathsep.join([str(Path(app.__file__ or "").parent.parent), *filter(None, sys.path)])
    log = folder / "service.log"
    # The service greets with its keys.
    log.touch(mode=0o600)
    server = spawn(
        [sys.executable, "-m", "app", "dev", *options],
        runner=Runner("this account", None, None, os.geteuid(), os.getegid()),
        log=log,
        dies_with=signal.SIGINT,
        environment={**CHILD_ENVIRONMENT, "PYTHONPATH": path},
    )
    try:
        yield Service(server, folder)
    finally:
        await stop(server)


def _configuration(folder: Path, *, chat: Chat) -> str:
    # JSON's strings are TOML's, unless they hold what no path of this demo does.
    return f"""
[queues.{QUEUE}]
lease_seconds = {LEASE_SECONDS}
backoff_seconds = 0.2
destinations = ["chat"]

[destinations.chat]
kind = "webhook"
url = {json.dumps(chat.url + SIGNED_PATH)}
secrets = [{json.dumps(f"file:{folder / SECRET_FILE}")}]
backoff_seconds = 0.2

[sweep]
interval_seconds = 0.2

[network]
allow = ["127.0.0.0/8"]
""".lstrip()


@asynccontextmanager
async def _open_program(
    name: str, arguments: Sequence[str], *, folder: Path
) -> AsyncIterator[_Program]:
    # Isolated, so that it can import nothing of this project, as a program in any language.
    command = [sys.executable, "-I", str(_HERE / f"{name}.py"), *arguments]
    with (folder / f"{name}.log").open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd="/",
            env=CHILD_ENVIRONMENT,
            start_new_session=True,
        )
    try:
        if process.stdin is None or process.stdout is None:
            raise DemoFailed(f"the {name} has no pipes")
        yield _Program(process, process.stdout, process.stdin)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
