"""The way to the server: does it answer, does it hear, does its clock agree, and is a pooler between?"""

from app.doctor.findings import Finding, good, span, warning, wrong
from app.doctor.patient import Patient
from app.domain.errors import SinksweepError
from app.engine.clock import clock_ahead_seconds
from app.engine.diagnose import find_server
from app.engine.link import hears_itself, keeps_settings, watch_link
from app.engine.schema import not_our_role

SKEW_WARNING_SECONDS = 2.0
# Signatures are tolerated for five minutes: beyond half of that two wrong clocks meet.
SKEW_WRONG_SECONDS = 120.0


async def check_connection(patient: Patient) -> list[Finding]:
    """As the service connects: its login, its role, its settings."""
    try:
        server = await find_server(patient.service)
    except SinksweepError as error:
        return [_unreachable(error)]
    text = f"Connected as {server.logged_in_as}, working as {server.works_as}."
    return [good(text)]


def _unreachable(error: SinksweepError) -> Finding:
    cause = error.__cause__
    if not_our_role(error):
        text = "The login was let in, and could not take on database.role."
        return wrong(
            text, "Run `sinksweep migrate` (it makes the role), or grant the role to the login."
        )
    if "startup parameter" in str(cause):
        text = "A pooler refuses the settings that each session begins with."
        advice = "Say in [database] that a pooler is between (docs/configuration.md), or connect past it."
        return wrong(text, advice)
    # The server's own word for it is a class of errors, and quotes neither host nor password.
    text = f"The database cannot be reached: {type(cause or error).__name__}."
    return wrong(
        text,
        "Check database_url, that the server runs, and that it lets this login in (pg_hba.conf).",
    )


async def check_clock(patient: Patient) -> list[Finding]:
    """The database's clock decides everything; this machine's only tolerates signatures."""
    ahead = await clock_ahead_seconds(patient.service)
    which = "ahead of" if ahead >= 0 else "behind"
    text = f"This machine's clock is {span(abs(ahead))} {which} the database's."
    if abs(ahead) >= SKEW_WRONG_SECONDS:
        return [
            wrong(text, "Signed webhooks will be refused, here or by receivers: set both by NTP.")
        ]
    if abs(ahead) >= SKEW_WARNING_SECONDS:
        return [warning(text, "Set both machines by NTP; nothing is decided by this one's clock.")]
    return [good(text)]


async def check_pooler(patient: Patient) -> list[Finding]:
    """A pooler that lends connections for one transaction keeps no session: it must be known to be there."""
    seen = await watch_link(patient.options)
    known = patient.options.pooled
    if seen.is_shared and not known:
        text = "A transaction pooler is between, and the configuration does not say so."
        advice = 'Set database.pooler = "transaction" (docs/configuration.md), or connect past it.'
        return [wrong(text, advice)]
    if not known and not await keeps_settings(patient.options):
        text = "What is set for a session does not stick: a pooler between drops it."
        advice = 'Set database.pooler = "transaction" (docs/configuration.md), or connect past it.'
        return [wrong(text, advice)]
    if known and patient.options.keeps_statements and not seen.keeps_statements:
        text = "The pooler loses prepared statements between transactions."
        advice = (
            "Set max_prepared_statements in pgbouncer (1.21 or newer), or tell that it keeps none."
        )
        return [wrong(text, advice)]
    if seen.is_shared:
        return [good("A transaction pooler is between, as the configuration says.")]
    if known and not seen.is_pooled:
        text = "The configuration says that a transaction pooler is between, and there seems to be none."
        return [warning(text, "It costs a little in each transaction: leave the setting out.")]
    return [
        good(
            "Sessions last" + (", over a pooler." if seen.is_pooled else "; no pooler is between.")
        )
    ]


async def check_notifications(patient: Patient) -> list[Finding]:
    """Whoever waits is woken by LISTEN and NOTIFY; without them everybody polls."""
    direct = patient.options.direct
    if direct is None:
        text = "Behind a transaction pooler nobody can listen: everything polls, once a second."
        return [
            warning(
                text, "Name a way past the pooler (database.direct_url, docs/configuration.md)."
            )
        ]
    try:
        heard = await hears_itself(direct)
    except Exception as error:  # noqa: BLE001 - whatever it is, nobody can be heard that way
        text = f"Nobody can be listened to: the connection ended in {type(error).__name__}."
        return [
            warning(text, "Point database.direct_url at Postgres itself: work is found by polling.")
        ]
    if heard:
        return [good("A notification arrives.")]
    text = (
        "A notification did not arrive within 3 s: work is found by polling, up to a second later."
    )
    return [
        warning(
            text, "Look for a pooler between that is not in session mode, or a very busy server."
        )
    ]


async def check_unsafe(patient: Patient) -> list[Finding]:
    """What was allowed for tests has no place where somebody relies on it."""
    if patient.settings.database.allow_unsafe:
        text = "database.allow_unsafe is true: the service starts on a server that loses what it acknowledged."
        return [warning(text, "Leave it out where anybody relies on a 2xx.")]
    return [good("The service refuses to start on a server that loses what it acknowledged.")]
