"""What real sources and real channels take: what agents see of a message, and bodies that differ under one key."""

from migrations.revision import run

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run(__file__)
