"""How long the model is played: shortly, unless `--examples N` asks for more."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--examples N`: so many stories, found anew each time."""
    parser.addoption("--examples", type=int, default=None, help="stories of the model test")
