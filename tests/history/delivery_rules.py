"""What must be true of messages: what arrives was sealed, recorded before, in order, the same each time, and true."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tests.history.history import CLOCK_SECONDS_MAX, History
from tests.history.rows import Event, KeptMessage

_STUCK = ("dead", "unknown")


def nothing_is_sent_before_its_seal(history: History) -> Iterator[str]:
    """Each request at a receiver is a sealed message's, and came after its seal."""
    for receipt in history.receipts:
        message = history.message_by_key.get(receipt.got.key)
        if message is None:
            yield f"{receipt.got.key} was received and never sealed"
            continue
        seal = history.first_move(message.id)
        if (
            seal is None
            or seal.verb not in ("seal", "edit", "escalate")
            or receipt.got.at < history.log_time(seal) - CLOCK_SECONDS_MAX
        ):
            yield f"{message.key} was received before it was sealed"


def every_attempt_is_the_same(history: History) -> Iterator[str]:
    """All attempts carry the key and the bytes that were sealed, and no two messages share a key.

    What stays of a held set that is edited is a message of another set of its turn, under the same key.
    """
    sets = Counter((message.key, message.seal) for message in history.rows.messages)
    turns = {(message.key, message.turn) for message in history.rows.messages}
    of_several = [key for key, count in Counter(key for key, _ in turns).items() if count > 1]
    for key in [*(key for (key, _), count in sets.items() if count > 1), *of_several]:
        yield f"{key} is the key of several messages"
    for receipt in history.receipts:
        got, message = receipt.got, history.message_by_key.get(receipt.got.key)
        if message is None:
            continue
        if got.complete and got.body_base64 != message.body_base64:
            yield f"{got.key} was received as {got.body_base64}"
        if got.webhook_id not in (None, got.key) or got.content_type not in (
            None,
            message.content_type,
        ):
            yield f"{got.key} was received as {got.webhook_id}, {got.content_type}"
        if got.destination != message.destination:
            yield f"{got.key} was received at {got.destination}"


def what_is_confirmed_was_received(history: History) -> Iterator[str]:
    """A message is delivered only after its receiver answered 2xx, unless somebody said that he has looked."""
    covered = history.terms.destinations
    for message in history.rows.messages:
        if covered is not None and message.destination not in covered:
            continue
        confirmed = _confirmed(history, message)
        for event in history.message_events.get(message.id, ()):
            if event.to_state != "delivered" or event.verb in ("resolve", "resend"):
                continue
            if not confirmed or min(confirmed) > history.log_time(event) + CLOCK_SECONDS_MAX:
                yield f"{message.key} is delivered and nobody had confirmed it"


def _confirmed(history: History, message: KeptMessage) -> list[float]:
    receipts = history.receipts_by_key.get(message.key, ())
    return [receipt.confirmed_at for receipt in receipts if receipt.confirmed_at is not None]


def what_arrived_is_not_given_up(history: History) -> Iterator[str]:
    """A message that its receiver has confirmed never ends dead, as what certainly did not arrive."""
    for message in history.rows.messages:
        if message.state == "dead" and _confirmed(history, message):
            yield f"{message.key} was confirmed and is dead"


def nothing_confirmed_is_sent_again(history: History) -> Iterator[str]:
    """Where no answer was lost, what is confirmed is written down and not sent a second time, but by a resend."""
    if not history.terms.wire_is_whole:
        return
    for key, receipts in history.receipts_by_key.items():
        first = min((r.confirmed_at for r in receipts if r.confirmed_at is not None), default=None)
        message = history.message_by_key.get(key)
        resends = [e for e in history.attempts_at(message.id) if e.step] if message else []
        again = [receipt for receipt in receipts if first is not None and receipt.got.at > first]
        if len(again) > len(resends):
            yield f"{key} was sent again after it was confirmed"


def replied_means_all_delivered(history: History) -> Iterator[str]:
    """A turn is replied if and only if its whole set is delivered, and not before the last of it was."""
    for turn in history.rows.turns:
        messages = history.messages_of.get(turn.id, [])
        events = history.turn_events.get(turn.id, [])
        if not messages:
            continue
        done = all(message.state == "delivered" for message in messages)
        if done != (turn.state == "replied"):
            states = [message.state for message in messages]
            yield f"{turn.id} is {turn.state}, and its messages are {states}"
        for replied in (event for event in events if event.to_state == "replied"):
            late = [m.key for m in messages if _state_before(history, m, replied) != "delivered"]
            if late:
                yield f"{turn.id} was replied before {late} were delivered"


def _state_before(history: History, message: KeptMessage, then: Event) -> str | None:
    states = [e.to_state for e in history.message_events.get(message.id, ()) if e.id < then.id]
    return states[-1] if states else None


def attempts_are_recorded_first(history: History) -> Iterator[str]:
    """No more requests reach a receiver than attempts were recorded before; and their cap holds."""
    cap = history.terms.message_attempts_max
    for message in history.rows.messages:
        if history.message_by_key[message.key] is not message:
            # An edit has put another in its place, under its key.
            continue
        takes = [e for e in history.events_of(message.id, "take") if e.to_state == "sending"]
        if message.attempts != len(takes):
            yield f"{message.key} has {message.attempts} attempts and was taken {len(takes)} times"
        if cap is not None and message.attempts_used > cap:
            yield f"{message.key} has used {message.attempts_used} attempts"
        receipts = history.receipts_by_key.get(message.key, [])
        attempts = history.attempts_at(message.id)
        if len(receipts) > len(attempts):
            yield f"{message.key} was received {len(receipts)} times in {len(attempts)} attempts"
        for attempt, receipt in zip(attempts, receipts, strict=False):
            if receipt.got.at < history.log_time(attempt) - CLOCK_SECONDS_MAX:
                yield f"{message.key} was received before its attempt was recorded"


def first_attempts_are_in_order(history: History) -> Iterator[str]:
    """In a lane of deliveries nothing is first sent while something before it is open; in a strict set neither.

    A dead or unknown message stops the later ones of its set, and lets those of other sets pass it and them for good.
    """
    left_at = _left_at(history)
    for lane, messages in _lanes(history).items():
        for n, message in enumerate(messages):
            take = next(iter(history.events_of(message.id, "take")), None)
            if take is None or take.to_state != "sending":
                continue
            passed = _passed(history, messages[n::-1], take, left_at)
            if passed is not None:
                yield f"{message.key} was first sent in {lane} before {passed}"


def _lanes(history: History) -> dict[object, list[KeptMessage]]:
    """Everything that has an order, in its order: conversations at a destination, and sets."""
    lanes: dict[object, list[KeptMessage]] = defaultdict(list)
    for message in sorted(history.rows.messages, key=lambda m: (m.place or 0, m.position)):
        # Without a place it was never let go.
        if message.conversation is not None and message.place is not None:
            lanes[message.queue, message.conversation, message.destination].append(message)
    for message in sorted(history.rows.messages, key=lambda m: m.position):
        own_set = (message.turn, message.seal)
        if message.strict:
            lanes[own_set].append(message)
        elif message.conversation is None:
            lanes[own_set, message.destination].append(message)
    return lanes


def _left_at(history: History) -> dict[str, int]:
    """The move by which each message was first given up, or one before it that stops it."""
    given_up: dict[object, int] = {}
    left_at: dict[str, int] = {}
    for message in sorted(history.rows.messages, key=lambda m: (m.turn, m.seal, m.position)):
        moves = history.message_events.get(message.id, ())
        own = next((event.id for event in moves if event.to_state in _STUCK), None)
        name: object = (message.turn, message.seal)
        if not message.strict:
            name = (name, message.destination, message.conversation)
        if own is not None:
            given_up[name] = min(own, given_up.get(name, own))
        if name in given_up:
            left_at[message.id] = given_up[name]
    return left_at


def _passed(
    history: History, behind: Sequence[KeptMessage], take: Event, left_at: dict[str, int]
) -> str | None:
    """Whom the first of these should have waited for; the others stand before it, the nearest first.

    Behind a delivered one there is nothing to find: it was asked the same.
    """

    def left(message: KeptMessage) -> bool:
        return left_at.get(message.id, take.id) < take.id

    message = behind[0]
    for other in behind[1:]:
        state = _state_before(history, other, take)
        if state == "delivered" and not left(other):
            return None
        same_set = (other.turn, other.seal) == (message.turn, message.seal)
        apart = not same_set and (left(message) or left(other))
        if state not in ("delivered", "cancelled") and not apart:
            return f"{other.key}, which was {state}"
    return None


RULES = (
    nothing_is_sent_before_its_seal,
    every_attempt_is_the_same,
    what_is_confirmed_was_received,
    what_arrived_is_not_given_up,
    nothing_confirmed_is_sent_again,
    replied_means_all_delivered,
    attempts_are_recorded_first,
    first_attempts_are_in_order,
)
