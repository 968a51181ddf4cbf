"""What an accept and every move after it write: one index less for each event."""

from alembic import op

from migrations.revision import run

revision = "0005"
down_revision = "0004"

# There may be very many events, and nobody who writes one has to wait. A build that was cut short is begun anew.
BUILD = (
    # It waits for every transaction that began before it.
    "set lock_timeout = '60s'",
    "set statement_timeout = 0",
    "drop index concurrently if exists sink.event_of_turn",
    "create unique index concurrently event_of_turn on sink.event (turn, id)",
    "set statement_timeout = '60s'",
    "set lock_timeout = '4s'",
)


def upgrade() -> None:
    with op.get_context().autocommit_block():
        for statement in BUILD:
            op.execute(statement)
    run(__file__)
