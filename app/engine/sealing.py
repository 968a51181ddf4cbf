"""A seal on its way: what is asked, the turn that its token holds, and what becomes of that and of its messages."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.domain.ids import IdFactory
from app.domain.lifecycle import MessageState, TurnState
from app.domain.model import SealRequest
from app.domain.record import record
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


def state_of(request: SealRequest) -> TurnState:
    """Where its turn goes. A set with nothing in it is never held, one without messages has nothing to confirm."""
    if request.hold is not None and (request.messages or request.follow_ups):
        return TurnState.HELD
    return TurnState.SEALED if request.messages else TurnState.REPLIED


@record(frozen=True, slots=True)
class Sealing:
    """What is asked, the turn whose token holds, where that goes, and what binds it all."""

    request: SealRequest
    turn: "Record"
    state: TurnState
    digest: bytes

    @property
    def is_held(self) -> bool:
        """Whether it waits for a person."""
        return self.state == TurnState.HELD

    @property
    def seal(self) -> int:
        """The number of this seal."""
        return int(self.turn["seal"]) + 1

    @property
    def leaves_lane(self) -> bool:
        """Whether its conversation goes on without it."""
        hold = self.request.hold
        keeps = self.is_held and hold is not None and hold.keeps_lane
        return self.turn["conversation"] is not None and not keeps


def sealing_of(request: SealRequest, turn: "Record") -> Sealing:
    """Bind a request to the turn that its token holds."""
    digest = payload_hash(
        turn=request.turn,
        attempt=turn["attempt"],
        order=request.order,
        messages=[message.hash for message in request.messages],
        follow_ups=[follow_up.hash for follow_up in request.follow_ups],
    )
    return Sealing(request, turn, state_of(request), digest)


def new_messages(
    sealings: Sequence[Sealing], tails: dict[DeliveryLane, int], ids: IdFactory
) -> list[NewMessage]:
    """Number the messages of turns: their positions in the set, and their places unless they are held."""
    standing = [
        [
            Standing(
                ids.new(),
                one.request.turn,
                one.turn["queue"],
                draft.conversation,
                draft.destination,
                one.request.order == "strict",
            )
            for draft in one.request.messages
        ]
        for one in sealings
    ]
    sets = list(zip(sealings, standing, strict=True))
    free = [message for one, set_ in sets if not one.is_held for message in set_]
    waiting = [message for one, set_ in sets if one.is_held for message in set_]
    placed = give_places(free, tails) | unplaced(waiting)
    return [
        NewMessage(
            placed[message.id],
            one.seal,
            position,
            draft,
            own_key(message.id),
            MessageState.HELD if one.is_held else MessageState.PENDING,
        )
        for one, set_ in sets
        for position, (message, draft) in enumerate(zip(set_, one.request.messages, strict=True))
    ]
