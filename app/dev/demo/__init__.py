"""`sinksweep demo`: the story with real processes on this machine, and a verdict that can be bad.

Bounded in time; whatever ends it, every process that it started ends with it.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from app.dev.demo.receiver import SIGNED_PATH
from app.dev.demo.stage import DemoFailed, open_chat, open_service
from app.dev.demo.story import with_seal, without_seal
from app.dev.demo.timeline import Timeline
from app.dev.demo.verdict import Check, verdict

STORY_SECONDS_MAX = 150.0

_FAILED = 1


def demo(*, keep: str | None) -> int:
    """Tell the story: the exit status, 0 if nothing was lost and nothing was said twice.

    `keep` names an empty or new folder for logs and data. Raises DemoFailed when it is neither.
    """
    folder = _folder(keep)
    timeline = Timeline(output=sys.stdout, copy=folder / "timeline.txt")
    kept = keep is not None
    try:
        fault = asyncio.run(_until_told_to_stop(timeline, folder))
        kept = kept or fault is not None
        timeline.gap()
        timeline.result(fault or "Nothing was lost and nothing was said twice.", good=not fault)
        return _FAILED if fault else 0
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        if kept:
            timeline.say(f"Logs and data are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _folder(keep: str | None) -> Path:
    if keep is None:
        folder = Path(tempfile.mkdtemp(prefix="sinksweep-demo-")).resolve()
        if os.geteuid() == 0:
            # The account that Postgres runs as must get through to its own folder.
            folder.chmod(0o711)
        return folder
    folder = Path(keep).resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DemoFailed(f"{folder} cannot be made: {error.strerror}") from error
    if any(folder.iterdir()):
        raise DemoFailed(f"{folder} is not empty: the story starts with an empty one")
    return folder


async def _until_told_to_stop(timeline: Timeline, folder: Path) -> str | None:
    """What went wrong, if anything. Cancelled by Ctrl-C and SIGTERM."""
    _cancel_on_signals()
    try:
        async with asyncio.timeout(STORY_SECONDS_MAX):
            checks = await _tell(timeline, folder)
    except TimeoutError:
        return "The story did not come to its end in time."
    except (DemoFailed, OSError) as error:
        return f"The story could not be told to its end: {error}"
    except (LookupError, TypeError, ValueError) as error:
        return f"The story met an answer that it does not understand: {error!r}"
    timeline.heading("The verdict, from what the chat received and what the service answers")
    for check in checks:
        timeline.check(check.claim, check.fault)
    wrong = [check.fault for check in checks if check.fault is not None]
    return f"{len(wrong)} of {len(checks)} checks failed." if wrong else None


def _cancel_on_signals() -> None:
    # Python's own handler is not there for a job in a shell's background, and SIGTERM has none.
    story = asyncio.current_task()
    if story is not None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, story.cancel)


async def _tell(timeline: Timeline, folder: Path) -> tuple[Check, ...]:
    timeline.say(
        "Every process here is real: a chat server, agents that are killed with SIGKILL, and the"
        " service with a Postgres of its own. Seconds, who, what:"
    )
    async with open_chat(folder) as chat:
        # Started first, and needed second: its database is made while the first part is told.
        async with open_service(folder, chat=chat) as service:
            await without_seal(timeline, folder=folder, chat=chat)
            evidence = await with_seal(timeline, folder=folder, chat=chat, service=service)
        # Only now that the service has ended can nothing more arrive.
        return verdict(
            chat.heard(SIGNED_PATH),
            sealed=evidence.sealed,
            turn=evidence.turn,
            accepted=evidence.accepted,
        )
