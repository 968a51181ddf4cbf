"""Who else is on the server, and what they hold: transactions, locks, the log, connections."""

from app.doctor.findings import Finding, amount, good, shown, span, warning, wrong
from app.doctor.patient import Patient
from app.engine.diagnose import find_server
from app.engine.sessions import (
    Session,
    find_connections,
    find_prepared,
    find_sessions,
    find_slots,
)

LONG_SECONDS = 60.0
VERY_LONG_SECONDS = 3600.0
IDLE_SECONDS = 10.0
HELD_BYTES_WARNING = 1 << 30
HELD_BYTES_WRONG = 20 << 30
# A process has its pool, and one connection that listens.
LISTENERS = 1


async def check_long_transactions(patient: Patient) -> list[Finding]:
    """A transaction that stays open keeps every table of the server from being cleaned, and may hold locks."""
    server = await find_server(patient.login)
    found = await find_sessions(patient.login, seconds=LONG_SECONDS)
    findings = [_long(one) for one in found]
    if not findings and not server.sees_all:
        text = "Transactions of other logins cannot be seen; this login has none that is open for long."
        return [
            warning(text, f"Grant pg_read_all_stats to {shown(server.logged_in_as)}, to see them.")
        ]
    return findings or [good(f"No transaction is open for more than {span(LONG_SECONDS)}.")]


def _long(one: Session) -> Finding:
    who = f"{shown(one.login)}, application {shown(one.application) or 'without a name'}, pid {one.pid}"
    where = "" if one.is_here else " in another database of this server"
    open_ = span(one.open_seconds)
    if one.is_idle and one.still_seconds >= IDLE_SECONDS:
        text = f"A transaction is open for {open_} and idle for {span(one.still_seconds)}{where}: {who}."
        advice = (
            "Whoever opened it forgot it, or waits inside of it. End it there, or with "
            f"select pg_terminate_backend({one.pid}); set idle_in_transaction_session_timeout for that login."
        )
    else:
        text = f"A transaction is open for {open_}{where}: {who}."
        advice = f"If nobody needs it: select pg_cancel_backend({one.pid})."
    is_wrong = one.open_seconds >= VERY_LONG_SECONDS or (one.is_here and one.is_idle)
    return wrong(text, advice) if is_wrong else warning(text, advice)


async def check_prepared_transactions(patient: Patient) -> list[Finding]:
    """A prepared transaction survives everything, its locks included. The service makes none."""
    found = await find_prepared(patient.login, seconds=LONG_SECONDS)
    return [
        wrong(
            f"A transaction was prepared {span(one.open_seconds)} ago by {shown(one.login)} and not ended: "
            f"{shown(one.gid)}.",
            "Its coordinator is gone. COMMIT PREPARED or ROLLBACK PREPARED it by its name.",
        )
        for one in found
    ] or [good("No prepared transaction is left over.")]


async def check_slots(patient: Patient) -> list[Finding]:
    """A slot that nobody reads keeps the log until the disk is full."""
    findings: list[Finding] = []
    slots = await find_slots(patient.login)
    for slot in slots:
        held, name = slot.held_bytes or 0, shown(slot.name)
        advice = f"Bring its reader back, or select pg_drop_replication_slot('{name}')."
        if slot.is_lost:
            findings.append(warning(f"The replication slot {name} is lost or about to be.", advice))
        elif held >= HELD_BYTES_WRONG:
            findings.append(
                wrong(f"The replication slot {name} holds {amount(held)} of log.", advice)
            )
        elif not slot.is_read:
            text = f"Nobody reads the replication slot {name}, which holds {amount(held)} of log."
            findings.append(warning(text, advice))
        elif held >= HELD_BYTES_WARNING:
            findings.append(
                warning(f"The replication slot {name} lags {amount(held)} behind.", advice)
            )
    return findings or [good(f"{len(slots)} replication slots, none that holds much.")]


async def check_connections(patient: Patient) -> list[Finding]:
    """Every process may open its whole pool at once, and one connection more that listens."""
    found = await find_connections(patient.login)
    database = patient.settings.database
    each = database.pool_max + database.reserved_connections + LISTENERS
    wanted = patient.replicas * each
    others = [
        ("max_connections", found.allowed - (found.used - found.ours)),
        ("the limit of the login", found.login_limit - (found.of_login - found.ours)),
        ("the limit of the database", found.database_limit - (found.here - found.ours)),
    ]
    limits = (found.allowed, found.login_limit, found.database_limit)
    left = [
        (words, room) for (words, room), limit in zip(others, limits, strict=True) if limit >= 0
    ]
    words, room = min(left, key=lambda one: one[1])
    who = "One process" if patient.replicas == 1 else f"Each of {patient.replicas} processes"
    needs = f"{who} may open {each} connections, {wanted} in all"
    if room < wanted:
        text = f"{needs}; {words} leaves {max(0, room)}."
        advice = "Raise it, lower database.pool_max, or put pgbouncer between (--replicas tells how many there are)."
        return [wrong(text, advice)]
    if room < 2 * wanted:
        text = f"{needs}; {words} leaves {room}."
        advice = (
            "A rolling restart runs old and new replicas at once: leave room for twice as many."
        )
        return [warning(text, advice)]
    return [good(f"{needs}; {words} leaves {room}.")]
