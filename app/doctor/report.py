"""How an examination is told: to a person, line by line with what to do, or to a program."""

from collections.abc import Iterator, Sequence

from app.doctor import Examined
from app.doctor.findings import Level

_MARKS = {Level.GOOD: "ok", Level.SKIPPED: "skip", Level.WARNING: "WARN", Level.WRONG: "FAIL"}


def is_well(examined: Sequence[Examined]) -> bool:
    """Whether nothing is wrong. Warnings do not count."""
    return all(one.level is not Level.WRONG for one in examined)


def lines(examined: Sequence[Examined]) -> Iterator[str]:
    """The report for a person."""
    width = max(len(one.code) for one in examined)
    for one in examined:
        for finding in one.findings:
            yield f"{_MARKS[finding.level]:<4}  {one.code:<{width}}  {finding.text}"
            if finding.advice:
                yield f"{'':<4}  {'':<{width}}  -> {finding.advice}"
    found = [finding.level for one in examined for finding in one.findings]
    wrong, warnings = found.count(Level.WRONG), found.count(Level.WARNING)
    yield ""
    if wrong:
        yield f"{wrong} {'things are' if wrong > 1 else 'thing is'} wrong, {warnings} to know of."
    elif warnings:
        yield f"Nothing is wrong; {warnings} {'things' if warnings > 1 else 'thing'} to know of."
    else:
        yield "All is well."


def document(examined: Sequence[Examined]) -> dict[str, object]:
    """The report for a program."""
    return {
        "good": is_well(examined),
        "checks": [
            {
                "code": one.code,
                "level": one.level,
                "findings": [
                    {"level": finding.level, "text": finding.text, "advice": finding.advice}
                    for finding in one.findings
                ],
            }
            for one in examined
        ],
    }
