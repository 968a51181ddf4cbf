"""What the service needs beside its database: secrets that are there, and destinations that answer."""

import asyncio

from app.core import Route
from app.doctor.findings import Finding, good, skipped, warning, wrong
from app.doctor.patient import Patient
from app.settings import resolve_secret
from app.wire.reach import words_of
from app.wire.target import InvalidTarget, Target, parse_target

REACH_SECONDS_MAX = 5.0
REACHED_AT_ONCE_MAX = 16


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
        said, advice = words_of(reason)
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
