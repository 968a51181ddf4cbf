"""What operating takes: pauses, shared limits and breakers, bulk operations, tombstones, and indexes for search."""

from migrations.revision import run

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run(__file__)
