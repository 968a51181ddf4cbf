"""What the demo prints: who did what and when, readable without colour, at most 100 columns wide."""

import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

WIDTH = 100

_WHO_WIDTH = 11
_TONES = {
    "user": "36",
    "agent": "33",
    "chat": "35",
    "sinksweep": "32",
    "good": "32",
    "kill": "31",
    "bad": "31",
    "heading": "1",
}


class Timeline:
    """Prints to `output`, and writes the same without colour to `copy`. Seconds count from here."""

    def __init__(self, *, output: TextIO, copy: Path) -> None:
        self._output = output
        self._copy = copy
        self._colour = output.isatty()
        self._start = time.monotonic()
        self._after_gap = False

    def tell(self, who: str, what: str, *, at: float | None = None) -> None:
        """One thing that happened: now, or `at` a moment of the monotonic clock, in seconds."""
        seconds = (time.monotonic() if at is None else at) - self._start
        start = f"{seconds:6.2f}  {who:<{_WHO_WIDTH}} "
        lines = textwrap.wrap(what, WIDTH - len(start)) or [""]
        painted = self._painted(start, tone=who.split(maxsplit=1)[0])
        self._print(start + lines[0], painted + lines[0])
        for line in lines[1:]:
            self._print(" " * len(start) + line)

    def heading(self, text: str) -> None:
        """The start of a part."""
        self.gap()
        self._print(text, self._painted(text, tone="heading"))
        self.gap()

    def gap(self) -> None:
        """An empty line, unless there is one."""
        if not self._after_gap:
            self._print("")

    def say(self, text: str) -> None:
        """Words beside the story."""
        for line in textwrap.wrap(text, WIDTH):
            self._print(line)

    def window(self, title: str, lines: Sequence[tuple[str, str]]) -> None:
        """What somebody sees: each line with who said it."""
        self.gap()
        self._print(f"        {title}")
        for who, text in lines:
            shown = textwrap.wrap(text, WIDTH - 18)
            self._print(f"        | {who:<6}{shown[0]}")
            for more in shown[1:]:
                self._print(f"        | {'':<6}{more}")
        self.gap()

    def table(self, title: str, rows: Sequence[str]) -> None:
        """Rows that are laid out already."""
        self.gap()
        self._print(f"        {title}")
        for row in rows:
            self._print(f"        {row}"[:WIDTH].rstrip())
        self.gap()

    def result(self, text: str, *, good: bool) -> None:
        """The last line."""
        self._print(text, self._painted(text, tone="good" if good else "bad"))

    def check(self, claim: str, fault: str | None) -> None:
        """One line of the verdict."""
        mark, tone = ("ok   ", "good") if fault is None else ("WRONG", "bad")
        words = claim if fault is None else f"{claim}: {fault}"
        first, *others = textwrap.wrap(words, WIDTH - 9)
        self._print(f"  {mark}  {first}", f"  {self._painted(mark, tone=tone)}  {first}")
        for line in others:
            self._print(" " * 9 + line)

    def _painted(self, text: str, *, tone: str) -> str:
        return f"\x1b[{_TONES[tone]}m{text}\x1b[0m" if tone in _TONES else text

    def _print(self, plain: str, painted: str | None = None) -> None:
        print(painted if painted and self._colour else plain, file=self._output, flush=True)
        with self._copy.open("a", encoding="utf-8") as file:
            file.write(plain + "\n")
        self._after_gap = not plain
