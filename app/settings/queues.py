"""The policy of one queue: how its turns run, where they may answer, and whom a held one waits for."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from app.domain.model import OnDeadline
from app.settings.section import Section
from app.settings.values import Count, Name, Seconds


class Queue(Section):
    """The policy of one queue. Without `destinations` it may use every one, without `follow_up_queues` itself."""

    not_built: ClassVar[frozenset[str]] = frozenset(
        {
            "budget",
            "on_version_change",
            "push_secrets",
            "push_url",
        }
    )
    attempts_max: Annotated[Count, Field(ge=1, le=1000)] = 5
    lease_seconds: Annotated[Count, Field(ge=1, le=86_400)] = 60
    backoff_seconds: Annotated[Seconds, Field(ge=0, le=86_400)] = 1.0
    backoff_seconds_max: Annotated[Seconds, Field(ge=0, le=86_400)] = 60.0
    destinations: tuple[Name, ...] | None = None
    conversations: Literal["own", "any"] = "own"
    coalesce_quiet_seconds: Annotated[Seconds | None, Field(ge=0.01, le=3600)] = None
    coalesce_seconds_max: Annotated[Seconds | None, Field(ge=0.01, le=86_400)] = None
    follow_up_queues: tuple[Name, ...] | None = None
    escalate_to: Name | None = None
    approvers: Name | None = None
    hold: Literal["always"] | None = None
    hold_deadline_seconds: Annotated[Count, Field(ge=1, le=315_360_000)] = 86_400
    hold_keeps_lane: bool = True
    on_deadline: OnDeadline = "escalate"
    reminder_seconds: Annotated[Count, Field(ge=1, le=31_536_000)] = 3600
    reminder_seconds_max: Annotated[Count, Field(ge=1, le=31_536_000)] = 86_400
    revisions_max: Annotated[Count, Field(ge=0, le=1000)] = 5
    park_seconds: Annotated[Count, Field(ge=1, le=315_360_000)] = 86_400
    input_age_max_seconds: Annotated[Seconds | None, Field(ge=1, le=31_536_000)] = None
    length_max: Annotated[Count | None, Field(ge=1, le=1_000_000)] = None
    rate_per_second: Annotated[Seconds | None, Field(ge=0.01, le=1_000_000)] = None
    rate_burst: Annotated[Count | None, Field(ge=1, le=1_000_000)] = None

    @property
    def burst(self) -> float:
        """How many inbound may come at once: as configured, or as many as in a second, and one at least."""
        if self.rate_burst is not None:
            return self.rate_burst
        return max(1.0, self.rate_per_second or 0.0)

    @property
    def longest_coalesce_seconds(self) -> float:
        """How long inbound are joined at most: as configured, or five quiet periods."""
        if self.coalesce_seconds_max is not None:
            return self.coalesce_seconds_max
        return 5 * (self.coalesce_quiet_seconds or 0.0)
