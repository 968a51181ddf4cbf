"""The demo tells the truth: its story really happens, its verdict can be bad, and it leaves nothing behind."""

import asyncio
import base64
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.dev.demo import demo
from app.dev.demo.receiver import judge
from app.dev.demo.stage import DemoFailed
from app.dev.demo.verdict import Accepted, Heard, Sealed, Turn, verdict
from app.wire.signature import signature_headers, signing_key

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ("Sorry, sold out.", "You are on the list.", "I will write to you.")


def heard(number: int, *, text: str | None = None, key: str | None = None) -> Heard:
    return {
        "at": float(number),
        "path": "/chat",
        "status": 204,
        "key": key or f"msg_{number}",
        "idempotency_key": key or f"msg_{number}",
        "signature": "valid",
        "text": text or TEXTS[number],
    }


def turn(state: str = "replied", *, last: str = "delivered") -> Turn:
    states = ["delivered", "delivered", last]
    return {
        "id": "turn_1",
        "inbound": "in_1",
        "state": state,
        "messages": [
            {"id": f"msg_{n}", "state": states[n], "attempts": 1, "idempotency_key": f"msg_{n}"}
            for n in range(3)
        ],
    }


def accepted(*, inbound: str = "in_1", duplicate: bool = True) -> Sequence[Accepted]:
    return (
        {"id": "in_1", "turn": "turn_1", "duplicate": False},
        {"id": inbound, "turn": "turn_1", "duplicate": duplicate},
    )


@dataclass(frozen=True, slots=True)
class Case:
    heard: Sequence[Heard] = field(default_factory=lambda: [heard(n) for n in range(3)])
    sealed: Sequence[Sealed] = tuple(Sealed(f"msg_{n}", TEXTS[n]) for n in range(3))
    turn: Turn = field(default_factory=turn)
    accepted: Sequence[Accepted] = field(default_factory=accepted)

    def faults(self) -> dict[str, str]:
        checks = verdict(self.heard, sealed=self.sealed, turn=self.turn, accepted=self.accepted)
        return {check.claim: check.fault for check in checks if check.fault is not None}


GOOD = Case()
UNSIGNED: Heard = {**heard(2), "signature": "wrong"}
OTHER_KEY: Heard = {**heard(2), "idempotency_key": "msg_9"}


def test_what_was_sealed_and_heard_once_in_order_is_without_fault() -> None:
    assert GOOD.faults() == {}


@pytest.mark.parametrize(
    ("case", "claim", "fault"),
    [
        (replace(GOOD, heard=[heard(0), heard(1)]), "nothing was lost", TEXTS[2]),
        (replace(GOOD, sealed=()), "nothing was lost", "nothing was sealed"),
        (replace(GOOD, heard=[*GOOD.heard, heard(2)]), "nothing was said twice", TEXTS[2]),
        (
            replace(GOOD, heard=[*GOOD.heard, heard(2, key="msg_7")]),
            "nothing was said twice",
            TEXTS[2],
        ),
        (
            replace(GOOD, heard=[*GOOD.heard, heard(3, text="Yes, for 49 euro!")]),
            "nothing was said that was not sealed",
            "Yes, for 49 euro!",
        ),
        (
            replace(GOOD, heard=[heard(1), heard(0), heard(2)]),
            "it was heard in the order of the seal",
            "2, 1, 3",
        ),
        (
            replace(GOOD, sealed=(*GOOD.sealed[:2], Sealed("msg_1", TEXTS[2]))),
            "every message has one key of its own, from seal to chat",
            "share a key",
        ),
        (
            replace(GOOD, sealed=(*GOOD.sealed[:2], Sealed("msg_7", TEXTS[2]))),
            "every message has one key of its own, from seal to chat",
            "other keys than its seal",
        ),
        (
            replace(GOOD, heard=[heard(0), heard(1), OTHER_KEY]),
            "every message has one key of its own, from seal to chat",
            TEXTS[2],
        ),
        (
            replace(GOOD, heard=[heard(0), heard(1), UNSIGNED]),
            "every signature is valid",
            TEXTS[2],
        ),
        (
            replace(GOOD, turn=turn("sealed")),
            "the turn is replied, every message delivered",
            "the turn is sealed",
        ),
        (
            replace(GOOD, turn=turn(last="pending")),
            "the turn is replied, every message delivered",
            "delivered, delivered, pending",
        ),
        (
            replace(GOOD, accepted=accepted(inbound="in_2")),
            "a question told twice is one inbound and one turn",
            "more than one inbound",
        ),
        (
            replace(GOOD, accepted=accepted(duplicate=False)),
            "a question told twice is one inbound and one turn",
            "not recognised",
        ),
    ],
)
def test_each_fault_is_found_and_named(case: Case, claim: str, fault: str) -> None:
    assert fault in case.faults()[claim]


def test_the_chat_believes_our_signature_and_no_other() -> None:
    secret = "whsec_" + base64.b64encode(b"k" * 32).decode()
    body = b'{"text": "Yes"}'
    now = datetime.fromtimestamp(time.time(), tz=UTC)  # noqa: TID251 - the chat looks at the clock

    def judged(*, key: bytes, body_seen: bytes, signed_at: datetime) -> str:
        signed = signature_headers("msg_1", body=body, keys=[key], attempted_at=signed_at)
        return judge(
            message_id=signed["webhook-id"],
            timestamp=signed["webhook-timestamp"],
            signatures=signed["webhook-signature"],
            body=body_seen,
            secret=secret,
        )

    ours = signing_key(secret.encode())
    old = datetime.fromtimestamp(now.timestamp() - 400, tz=UTC)
    assert judged(key=ours, body_seen=body, signed_at=now) == "valid"
    assert judged(key=ours, body_seen=body + b" ", signed_at=now) == "wrong"
    assert judged(key=b"another", body_seen=body, signed_at=now) == "wrong"
    assert judged(key=ours, body_seen=body, signed_at=old) == "wrong"
    unsigned = judge(message_id="", timestamp="", signatures="", body=body, secret=secret)
    assert unsigned == "none"


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("")
    with pytest.raises(DemoFailed, match=f"{tmp_path} is not empty"):
        demo(keep=str(tmp_path))


@pytest.fixture
def place() -> Iterator[Path]:
    """Where the demo makes its folder: every account may pass through, which pytest's own bar."""
    folder = Path(tempfile.mkdtemp(prefix="demo-test-", dir="/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@asynccontextmanager
async def telling(place: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """The demo in a process group of its own, in a shell with settings that must not matter."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app", "demo"),
        cwd=ROOT,
        env={
            "PATH": "/usr/bin:/bin",
            "TMPDIR": str(place),
            "DATABASE_URL": "postgresql://nowhere:1/none",
            "SINKSWEEP_PORT": "1",
            "http_proxy": "http://127.0.0.1:1",
        },
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not condition():
            await asyncio.sleep(0.01)


def processes_on(folder: Path) -> list[str]:
    """The command lines that name the folder (none where the platform tells no command lines)."""
    found: list[str] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words:
            found.append(words.replace("\0", " "))
    return found


async def test_the_story_happens_and_nothing_is_lost_or_said_twice(place: Path) -> None:
    async with telling(place) as process:
        output, _ = await process.communicate()
    text = output.decode()
    assert process.returncode == 0, text
    in_order = (
        "kill -9     agent 1 dies",
        "Two beginnings of one answer",
        "200, a duplicate: turn_",
        "kill -9     agent A dies before its seal",
        "has heard nothing: 0 messages",
        "sweep: the lease has lapsed",
        "claims the turn: attempt 2",
        "409 lease_lost, swept",
        "agent B seals its 3 messages",
        "(signature valid)",
        "the turn is replied",
        "Nothing was lost and nothing was said twice.",
    )
    words = " ".join(text.split())
    places = [words.find(" ".join(line.split())) for line in in_order]
    assert -1 not in places, text
    assert places == sorted(places), text
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b" not in text
    assert processes_on(place) == []
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_told_to_stop_it_ends_all_that_it_started_and_takes_its_folder_along(
    place: Path, number: signal.Signals
) -> None:
    async with telling(place) as process:
        assert process.stdout is not None
        async for line in process.stdout:
            if b"agent 1 dies" in line:
                break
        # Both programs that carry the folder's name run: the chat and the service.
        await until(lambda: len(processes_on(place)) >= 2 or not Path("/proc/self").exists())
        os.killpg(process.pid, number)
        async with asyncio.timeout(30):
            await process.stdout.read()
            assert await process.wait() == 130
    await until(lambda: processes_on(place) == [])
    assert list(place.iterdir()) == []
