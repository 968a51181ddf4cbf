"""How the destinations that people are told at take it: found out at the start, by asking their channels."""

import logging
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from uuid import UUID

from app.channels import Draft
from app.core.destinations import Route
from app.domain.errors import InvalidContent
from app.domain.message import spell_address
from app.domain.notice import CONTENT_TYPE, SHAPES, Notice, NoticeForm, body
from app.settings import Fault, Settings, dotted, silences

log = logging.getLogger(__name__)

# Stands for any notice: what is refused of it would be refused of every one.
_ANY = Notice(
    kind="hold",
    reason="held",
    turn=UUID(int=0),
    queue="queue",
    conversation=None,
    state="held",
    payload_hash=None,
    note=None,
    deadline_at=None,
    on_deadline=None,
    at=datetime.fromtimestamp(0, UTC),
)


def notice_forms(settings: Settings, routes: Mapping[str, Route]) -> Mapping[str, NoticeForm]:
    """The form of each destination that somebody is told at, as far as it is configured here and takes one."""
    forms = {name: _form(routes[name]) for _, _, name in _tellers(settings) if name in routes}
    return {name: form for name, form in forms.items() if form is not None}


def telling_faults(settings: Settings, routes: Mapping[str, Route]) -> list[Fault]:
    """Where a queue tells people at a destination that does not know whom: every notice would end there."""
    detail = "its messages have to name whom they go to: configure `to`, or what stands for it"
    return [
        Fault(dotted(["queues", queue, key]), "contradiction", detail)
        for queue, key, name in _tellers(settings)
        if name in routes and _form(routes[name]) is None
    ]


def warn_of_silence(settings: Settings) -> None:
    """What is held already must be served, whether anybody hears of it or not."""
    for fault in silences(settings):
        log.warning("%s", fault)


def _tellers(settings: Settings) -> Iterator[tuple[str, str, str]]:
    for queue, policy in settings.queues.items():
        for key, name in (("escalate_to", policy.escalate_to), ("approvers", policy.approvers)):
            if name is not None:
                yield queue, key, name


def _form(route: Route) -> NoticeForm | None:
    for shape in SHAPES:
        draft = Draft(
            destination=route.name,
            recipient=None,
            headers={},
            content_type=CONTENT_TYPE,
            body=body(_ANY, public_url=None, shape=shape),
        )
        try:
            return NoticeForm(shape, spell_address(route.check(draft, reply=None)))
        except InvalidContent:
            continue
    return None
