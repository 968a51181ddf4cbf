"""What the service needs beside its database: secrets that are there, and destinations that answer."""

import asyncio

from app.core import Route
from app.doctor.findings import Finding, good, skipped, warning, wrong
from app.doctor.patient import Patient
from app.settings import resolve_secret
from app.wire.target import InvalidTarget, Target, parse_target

REACH_SECONDS_MAX = 5.0
REACHED_AT_ONCE_MAX = 16

_WORDS = {
    "address_denied": (
        "its name leads to a private address, which destinations may not reach",
        "If it is meant to be inside, add its network to network.allow.",
    ),
    "dns_failed": (
        "its name could not be resolved",
        "Check the host in its url, and this machine's resolver.",
    ),
    "resolver_busy": (
        "its name could not be looked up in time",
        "Look at this machine's resolver.",
    ),
    "connection_refused": (
        "nobody listens there",
        "Check that the receiver runs, and the port in its url.",
    ),
    "tls_failed": (
        "TLS failed: its certificate is not valid for its name, or not trusted here",
        "Look at the receiver's certificate chain, and at this machine's certificate authorities.",
    ),
    "timeout": (
        f"no connection within {REACH_SECONDS_MAX:g} s",
        "Look for a firewall between: nothing comes back, not even a refusal.",
    ),
}
_UNREACHED = (
    "no connection could be made",
    "Look at the network between this machine and the receiver.",
)


async def check_secrets(patient: Patient) -> list[Finding]:
    """A pointer that leads to nothing stops its destination; without any pointer it is sent to unsigned."""
    findings: list[Finding] = []
    count = 0
    for name, route in sorted(patient.routes.items()):
        pointers = route.channel.secrets(route.config)
        count += len(pointers)
        if not pointers and "secrets" in route.channel.Config.model_fields:
            text = f"The destination {name} has no secret: it is sent to unsigned."
            findings.append(
                warning(text, "Give it `secrets`, unless its receiver has other ways to know us.")
            )
        for pointer in pointers:
            if resolve_secret(pointer) is None:
                text = f"The pointer {pointer} of the destination {name} leads to nothing."
                advice = "Bring the variable or the file, readable by this account: nothing is sent without it."
                findings.append(wrong(text, advice))
    return findings or [good(f"{count} secrets, and each is there.")]


async def check_destinations(patient: Patient) -> list[Finding]:
    """A connection to each is opened under the rules of deliveries, and closed: no request is sent."""
    if patient.client is None:
        return [skipped("No destination was connected to (--no-network).")]
    slots = asyncio.Semaphore(REACHED_AT_ONCE_MAX)

    async def reached(route: Route, target: Target) -> Finding:
        assert patient.client is not None  # noqa: S101 - seen above
        async with slots:
            reason = await patient.client.reach(target, timeout_seconds=REACH_SECONDS_MAX)
        if reason is None:
            return good(f"The destination {route.name} takes connections.")
        said, advice = _WORDS.get(reason, _UNREACHED)
        return wrong(f"The destination {route.name} cannot be reached ({reason}): {said}.", advice)

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(reached(route, target))
            for route in patient.routes.values()
            if (target := _target(route)) is not None
        ]
    found = [task.result() for task in tasks]
    return found or [skipped("No destination leads outside of this installation.")]


def _target(route: Route) -> Target | None:
    """Where a destination is; None for a channel that has no address of its own."""
    url = getattr(route.config, "url", None)
    if not isinstance(url, str):
        return None
    try:
        return parse_target(url)
    except InvalidTarget:
        return None
