"""The foundation: inbound, turn, outbox, and what orders, fences and remembers them."""

from migrations.revision import run

revision = "0001"
down_revision = None


def upgrade() -> None:
    run(__file__)
