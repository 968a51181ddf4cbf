"""The checker: a pure function of a history, which knows what was promised and nothing of how it is done."""

from dataclasses import dataclass

from tests.history import (
    delivery_rules,
    hold_rules,
    input_rules,
    move_rules,
    person_rules,
    turn_rules,
    wait_rules,
)
from tests.history.history import History

RULES = (
    *input_rules.RULES,
    *turn_rules.RULES,
    *delivery_rules.RULES,
    *person_rules.RULES,
    *hold_rules.RULES,
    *wait_rules.RULES,
    *move_rules.RULES,
)


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a history breaks, and how."""

    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


def check(history: History) -> list[Violation]:
    """Everything in a history that must not be."""
    return [Violation(rule.__name__, what) for rule in RULES for what in rule(history)]
