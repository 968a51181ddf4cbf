"""The log format, and the only fields that a line may carry. None is a body, a secret, a key or an address."""

import json
import logging
import sys
from typing import TextIO

# How far a log line follows an error into its cause.
FRAMES_MAX = 30

# What a log line may carry beside its text: nothing gets in by accident.
FIELDS = (
    "loop",
    "error",
    "queue",
    "source",
    "destination",
    "turn",
    "message_id",
    "operation",
    "attempt",
    "outcome",
    "pointer",
    "route",
    "status",
    "seconds",
    "count",
    "reason",
)


class JsonLines(logging.Formatter):
    """One JSON object a line, with allow-listed fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Name the error's type and not its text, which may quote what it failed on."""
        line: dict[str, object] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "text": record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["where"] = _where(record)
        return json.dumps(line, ensure_ascii=False, default=str)


class PlainLines(logging.Formatter):
    """The same for a person at a terminal: time, level, words, and the same fields."""

    def format(self, record: logging.LogRecord) -> str:
        """As little of an error as `JsonLines` tells."""
        fields = [f"{name} {getattr(record, name)}" for name in FIELDS if hasattr(record, name)]
        if record.exc_info and record.exc_info[0] is not None:
            fields += [f"error {record.exc_info[0].__name__}", *_where(record)[-1:]]
        told = f" ({', '.join(fields)})" if fields else ""
        at = self.formatTime(record, "%H:%M:%S")
        return f"{at} {record.levelname.lower()}: {record.getMessage()}{told}"


def _where(record: logging.LogRecord) -> list[str]:
    """File and line of each frame: enough to find the place, and nothing of what was in it."""
    frames: list[str] = []
    trace = record.exc_info[2] if record.exc_info else None
    while trace is not None and len(frames) < FRAMES_MAX:
        code = trace.tb_frame.f_code
        frames.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return frames


def configure_logging(
    *, level: str = "INFO", stream: TextIO = sys.stderr, plain: bool = False
) -> None:
    """Send every log line of the process to one stream, in one format; `plain` is for people."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PlainLines() if plain else JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("alembic", "aiohttp.access", "uvicorn.access"):
        logging.getLogger(noisy).setLevel("WARNING")
