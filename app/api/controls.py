"""The calls that show queues, sources and destinations, stop them, and let them go on."""

from collections.abc import Sequence
from typing import Final

from app.api import control_schemas as schemas
from app.api import pauses, requests
from app.api.calls import ADMIN, BODY_CODES, READ, Call
from app.api.overview import list_destinations, list_queues, list_sources

_STOPS: Final = (
    (
        "/v1/queues/{name}/pause",
        pauses.pause_queue,
        "Give no turn of a queue; inbound are accepted.",
    ),
    ("/v1/queues/{name}/resume", pauses.resume_queue, "Give the turns of a queue again."),
    ("/v1/sources/{name}/pause", pauses.pause_source, "Accept from a source, and let that wait."),
    ("/v1/sources/{name}/resume", pauses.resume_source, "Let what a source held up become due."),
    ("/v1/destinations/{name}/pause", pauses.pause_destination, "Send nothing to a destination."),
    (
        "/v1/destinations/{name}/resume",
        pauses.resume_destination,
        "Send to a destination again, also where its breaker had stopped it.",
    ),
    ("/v1/pause", pauses.pause_everything, "Give no turn and send nothing; inbound are accepted."),
    ("/v1/resume", pauses.resume_everything, "Go on with what is not paused by itself."),
)

# What is there and how it is, and what people stop.
CONTROLS: Final[Sequence[Call]] = (
    Call(
        method="GET",
        path="/v1/queues",
        handler=list_queues,
        scopes=READ,
        summary="The queues: what they have to do, and whether they are paused.",
        answers={200: schemas.Queues},
        codes=("invalid_content",),
    ),
    Call(
        method="GET",
        path="/v1/sources",
        handler=list_sources,
        scopes=READ,
        summary="The sources: what they hold up, and whether they are paused.",
        answers={200: schemas.Sources},
        codes=("invalid_content",),
    ),
    Call(
        method="GET",
        path="/v1/destinations",
        handler=list_destinations,
        scopes=READ,
        summary="The destinations: what waits for them, their health, and whether they are paused.",
        answers={200: schemas.Destinations},
        codes=("invalid_content",),
    ),
    *(
        Call(
            method="POST",
            path=path,
            handler=handler,
            scopes=ADMIN,
            summary=summary,
            request=requests.StopOrGoOn,
            answers={200: schemas.PauseNow},
            codes=(*BODY_CODES, "not_found") if "{name}" in path else BODY_CODES,
        )
        for path, handler, summary in _STOPS
    ),
)
