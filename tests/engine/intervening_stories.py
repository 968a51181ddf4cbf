"""What people do to turns and messages, by somebody whom a test does not care about."""

from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from app.domain.ids import IdFactory
from app.domain.model import Changed
from app.engine import cancel, operation, redrive, resend, resolve
from app.engine import pause as pausing
from app.engine.matching import Filter

if TYPE_CHECKING:
    from app.engine.database import Pool


class Interventions:
    """The verbs of people, over one pool."""

    __slots__ = ()

    pool: "Pool"
    ids: IdFactory

    async def pause(self, kind: pausing.Kind, name: str = "") -> None:
        assert await pausing.pause(self.pool, kind, name, by="ada") is not None

    async def resume(self, kind: pausing.Kind, name: str = "") -> None:
        await pausing.resume(self.pool, kind, name)

    async def cancel(self, *turns: UUID) -> list[Changed | None]:
        return await cancel.cancel_turns(self.pool, turns, by="ada")

    async def cancel_messages(self, *messages: UUID) -> list[Changed | None]:
        return await cancel.cancel_messages(self.pool, messages, by="ada")

    async def redrive(self, *turns: UUID) -> list[Changed | None]:
        return await redrive.redrive_turns(self.pool, turns, by="ada")

    async def redrive_messages(self, *messages: UUID) -> list[Changed | None]:
        return await redrive.redrive_messages(self.pool, messages, by="ada")

    async def resolve(
        self, *messages: UUID, state: Literal["delivered", "cancelled"]
    ) -> list[Changed | None]:
        return await resolve.resolve_messages(self.pool, messages, state=state, by="ada")

    async def ask_resend(self, *messages: UUID) -> list[Changed | None]:
        return await resend.resend_messages(self.pool, messages, by="ada")

    async def begin(self, kind: Any, verb: Any, outcome: Any = None, **wanted: Any) -> UUID:
        """Begin a verb over everything that matches."""
        chosen = Filter(**{"states": operation.STATES[kind, verb], **wanted})
        order = operation.Order(
            kind=kind, verb=verb, wanted=chosen, asked={"all": True}, outcome=outcome
        )
        begun = await operation.begin_operation(self.pool, order, ids=self.ids, by="ada")
        return begun.id
