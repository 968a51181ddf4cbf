"""The policies that the model and the engine share: small enough that everything ends soon."""

from app.domain.breaker import BreakerPolicy
from app.domain.model import DeliveryPolicy, Joining, TurnPolicy

LEASE_SECONDS = 60
DELIVERY_SECONDS = 30.0
QUIET_SECONDS = 2.0
QUIET_SECONDS_MAX = 10.0
INBOUND_MAX = 3
JOINING = Joining(
    quiet_seconds=QUIET_SECONDS,
    seconds_max=QUIET_SECONDS_MAX,
    inbound_max=INBOUND_MAX,
    bytes_max=1 << 20,
)
TURN_POLICY = TurnPolicy(
    attempts_max=3,
    releases_max=2,
    backoff_seconds=1.0,
    backoff_seconds_max=8.0,
    reminder_seconds=20.0,
    reminder_seconds_max=40.0,
    revisions_max=1,
)
CRM, MAIL, HELD = "crm", "mail", "held"
# One that gives up at once, so that messages get stuck, one that tries again, so that others wait, and one that leaves
# what is unknown to people.
DELIVERY_POLICIES = {
    destination: DeliveryPolicy(
        attempts_max=attempts,
        age_seconds_max=1e9,
        backoff_seconds=1.0,
        backoff_seconds_max=8.0,
        on_unknown="hold" if destination == HELD else "retry",
        breaker=BreakerPolicy(failures=3, seconds=5.0, seconds_max=20.0),
    )
    for destination, attempts in ((CRM, 1), (MAIL, 3), (HELD, 3))
}
