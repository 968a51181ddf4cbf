"""Runs the .sql file beside a revision, as it stands."""

from pathlib import Path

from alembic import op
from sqlalchemy.util import await_only


def run(revision_file: str) -> None:
    """Run the script that has the revision's name."""
    script = Path(revision_file).with_suffix(".sql").read_text(encoding="utf-8")
    driver = op.get_bind().connection.driver_connection
    if driver is None:
        message = "a revision needs a live connection"
        raise RuntimeError(message)
    # The driver's own execute takes many statements at once, and no colon or percent sign means anything to it.
    await_only(driver.execute(script))
