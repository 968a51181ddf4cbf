"""A seal on its way: what is asked, what its token stands for, and what becomes of its turn and its messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.ids import IdFactory
from app.domain.lifecycle import MessageState, TurnState
from app.domain.model import SealRequest
from app.domain.seal import payload_hash
from app.engine.message_set import (
    DeliveryLane,
    NewMessage,
    Standing,
    give_places,
    own_key,
    unplaced,
)

if TYPE_CHECKING:
    from asyncpg import Record


@dataclass(frozen=True, slots=True)
class Sealing:
    """What is asked, what its token stands for, and what binds it all."""

    request: SealRequest
    attempt: "Record"
    digest: bytes

    @property
    def state(self) -> TurnState:
        """Where its turn goes. A set with nothing in it is never held, one without messages has nothing to confirm."""
        if self.request.hold is not None and (self.request.messages or self.request.follow_ups):
            return TurnState.HELD
        return TurnState.SEALED if self.request.messages else TurnState.REPLIED

    @property
    def is_held(self) -> bool:
        """Whether it waits for a person."""
        return self.state == TurnState.HELD

    @property
    def leaves_lane(self) -> bool:
        """Whether its conversation goes on without it."""
        hold = self.request.hold
        keeps = self.is_held and hold is not None and hold.keeps_lane
        return self.attempt["conversation"] is not None and not keeps


def sealing_of(request: SealRequest, attempt: "Record") -> Sealing:
    """Bind a request to the attempt that its token stands for."""
    digest = payload_hash(
        turn=request.turn,
        attempt=attempt["attempt"],
        order=request.order,
        messages=[message.hash for message in request.messages],
        follow_ups=[follow_up.hash for follow_up in request.follow_ups],
    )
    return Sealing(request, attempt, digest)


def new_messages(
    sealings: Sequence[Sealing],
    moved: "dict[UUID, Record]",
    tails: dict[DeliveryLane, int],
    ids: IdFactory,
) -> list[NewMessage]:
    """Number the messages of turns that moved: their positions in the set, and their places unless they are held."""
    standing = {
        one.request.turn: [
            Standing(
                ids.new(),
                one.request.turn,
                moved[one.request.turn]["queue"],
                draft.conversation,
                draft.destination,
                one.request.order == "strict",
            )
            for draft in one.request.messages
        ]
        for one in sealings
    }
    free = [
        message for one in sealings if not one.is_held for message in standing[one.request.turn]
    ]
    waiting = [message for one in sealings if one.is_held for message in standing[one.request.turn]]
    placed = give_places(free, tails) | unplaced(waiting)
    return [
        NewMessage(
            placed[message.id],
            moved[one.request.turn]["seal"],
            position,
            draft,
            own_key(message.id),
            MessageState.HELD if one.is_held else MessageState.PENDING,
        )
        for one in sealings
        for position, (message, draft) in enumerate(
            zip(standing[one.request.turn], one.request.messages, strict=True)
        )
    ]
