"""Runs the service with a bug planted: `python -m tests.plants NAME serve ...`. Without arguments it lists the bugs."""

import sys

from app.__main__ import main
from tests.plants.cases import PLANTS


def run(arguments: list[str]) -> int:
    """The service's exit code."""
    if not arguments or arguments[0] not in PLANTS:
        for name, plant in PLANTS.items():
            print(f"{name:24}{plant.what}")
        return 2
    name, *rest = arguments
    with PLANTS[name].planted():
        return main(rest)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
