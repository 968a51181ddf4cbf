"""Writes docs/openapi.json anew from the table of calls: `python -m tests.dump_openapi`."""

import json
from pathlib import Path
from typing import cast

from app import VERSION
from app.api.openapi import document
from app.api.operations import Readiness
from app.api.routes import CALLS, operations
from app.core import Core

PATH = Path(__file__).parents[1] / "docs" / "openapi.json"


def written() -> str:
    """The document as it is committed. Describing a call needs no core."""
    described = document([*CALLS, *operations(Readiness(cast("Core", None)))], version=VERSION)
    return json.dumps(described, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    PATH.write_text(written(), encoding="utf-8")
