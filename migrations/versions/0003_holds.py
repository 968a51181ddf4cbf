"""Holds, waits, follow-ups and notices: what a person, an event or a time decides, and who is told of it."""

from migrations.revision import run

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run(__file__)
