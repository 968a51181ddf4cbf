"""Are the tables the right ones, may the service do with them what it must and no more, and are they kept clean?"""

from app.doctor.findings import Finding, good, skipped, span, warning, wrong
from app.doctor.patient import Patient
from app.engine.diagnose import (
    expected_indexes,
    find_freeze_age,
    find_grants,
    find_indexes,
    find_role,
    find_settings,
    find_tables,
)
from app.engine.schema import WrongSchema, check_schema

DEAD_ROWS_MIN = 10_000
# Dead rows for each that lives: with as many as live, a scan reads two pages for one.
DEAD_SHARE_MAX = 2.0
FREEZE_WARNING = 1_000_000_000
FREEZE_WRONG = 1_800_000_000
# The story of everything: the service adds to it and can change nothing of it.
APPEND_ONLY = frozenset({"event"})
READ_ONLY = frozenset({"alembic_version"})


async def check_migrations(patient: Patient) -> list[Finding]:
    """The schema is neither behind nor ahead of this version."""
    try:
        await check_schema(patient.service)
    except WrongSchema as error:
        text = str(error)
        return [wrong(f"{text[0].upper()}{text[1:]}.", "Run the version that fits, or migrate.")]
    return [good("The schema is the one of this version.")]


async def check_indexes(patient: Patient) -> list[Finding]:
    """Without one of its indexes a statement reads a whole table each time."""
    there = await find_indexes(patient.service)
    missing = sorted(expected_indexes() - there.keys())
    broken = sorted(name for name, is_valid in there.items() if not is_valid)
    findings: list[Finding] = []
    if missing:
        text = f"Indexes are missing: {', '.join(missing)}."
        advice = "Create them as migrations/schema.sql says, with CREATE INDEX CONCURRENTLY while the service runs."
        findings.append(wrong(text, advice))
    if broken:
        text = f"Indexes are not valid: {', '.join(broken)}."
        findings.append(
            wrong(text, "REINDEX INDEX CONCURRENTLY each of them (they are in the schema sink).")
        )
    return findings or [good(f"All {len(there)} indexes are there and valid.")]


async def check_privileges(patient: Patient) -> list[Finding]:
    """The service works as a role that owns nothing, so that nothing it is tricked into can end the data."""
    role = await find_role(patient.service)
    if not role.enters:
        text = f"The role {role.name} may not use the schema sink."
        return [wrong(text, "Grant it the role sinksweep_app, or set database.role to that.")]
    powers = [
        ("is a superuser", role.is_superuser),
        ("makes roles", role.makes_roles),
        ("makes databases", role.makes_databases),
        ("replicates", role.replicates),
        ("makes tables in sink", role.makes_tables),
        ("owns tables of sink", role.owns_tables),
    ]
    held = [words for words, has in powers if has]
    grants = await find_grants(patient.service)
    lacking = [g.name for g in grants if not g.reads or not (g.adds or g.name in READ_ONLY)]
    audit = sorted(g.name for g in grants if g.changes and g.name in APPEND_ONLY | READ_ONLY)
    findings: list[Finding] = []
    if held:
        text = f"The role that works, {role.name}, {', '.join(held)}."
        findings.append(wrong(text, _LEAST))
    elif audit:
        text = f"The role that works, {role.name}, can change what it must only add to: {', '.join(audit)}."
        findings.append(
            wrong(text, f"Revoke update, delete and truncate on these from {role.name}.")
        )
    if lacking:
        text = f"The role that works, {role.name}, lacks grants on: {', '.join(lacking)}."
        findings.append(
            wrong(text, "Run `sinksweep migrate`, or grant what migrations/schema.sql grants.")
        )
    return findings or [good(f"The service works as {role.name}, which owns nothing.")]


_LEAST = (
    'Set database.role = "sinksweep_app", which owns nothing, and grant that role to the login. Only `sinksweep '
    "migrate` needs an owner."
)


async def check_bloat(patient: Patient) -> list[Finding]:
    """Rows that move leave dead ones behind; when nobody cleans them, every statement reads them."""
    tables = await find_tables(patient.login)
    findings: list[Finding] = []
    for table in tables:
        if table.never_vacuumed:
            text = f"Autovacuum is off for {table.name}."
            advice = f"ALTER TABLE sink.{table.name} RESET (autovacuum_enabled)."
            findings.append(wrong(text, advice))
        elif table.dead >= DEAD_ROWS_MIN and table.dead > DEAD_SHARE_MAX * table.live:
            last = "never" if table.vacuumed_ago is None else f"{span(table.vacuumed_ago)} ago"
            text = (
                f"{table.name} has {table.dead} dead rows to {table.live} living; cleaned {last}."
            )
            findings.append(warning(text, _BLOAT))
    return findings or [good(f"None of {len(tables)} tables is bloated.")]


_BLOAT = (
    "Look for a long transaction or a replication slot that keeps them (checks of their own), then run VACUUM on it. "
    "If it comes back, give autovacuum more workers or a higher cost limit."
)


def judge_freezing(age: int) -> Finding:
    """Transaction ids are used up at two thousand million, unless old rows are frozen in time."""
    text = f"This database was frozen {age} transactions ago."
    if age >= FREEZE_WRONG:
        return wrong(
            text,
            "The server will stop taking writes: end long transactions and run VACUUM FREEZE now.",
        )
    if age >= FREEZE_WARNING:
        return warning(
            text,
            "Autovacuum does not keep up: look for long transactions and slots, then VACUUM FREEZE.",
        )
    return good(text)


async def check_freezing(patient: Patient) -> list[Finding]:
    """How near the server is to its end of ids."""
    return [judge_freezing(await find_freeze_age(patient.login))]


async def check_autovacuum(patient: Patient) -> list[Finding]:
    """The tables live on being cleaned."""
    values = await find_settings(patient.login, "autovacuum", "track_counts")
    if not values:
        return [skipped("autovacuum cannot be seen by this login.")]
    off = sorted(name for name, value in values.items() if value == "off")
    if off:
        text = f"{' and '.join(off)} is off: nobody cleans the tables, which grow and slow down."
        return [
            wrong(
                text, f"Set {' and '.join(f'{name} = on' for name in off)} and reload the server."
            )
        ]
    return [good("Autovacuum is on.")]
