"""What must be true of turns: attempts, leases, lanes, and one seal of a whole set."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.history.history import CLOCK_SECONDS_MAX, Call, History
from tests.history.rows import Event

# By these an agent, or the sweep for it, gives a turn back; their moves begin when its row is locked already.
_GIVEN_BACK = ("sweep", "release", "fail")
# How an attempt has ended whose holder was granted this. A turn that was handed back either way is handed back.
_ENDS = {
    "seal": ("seal",),
    "park": ("park",),
    "release": ("release", "fail"),
    "fail": ("release", "fail"),
}


def _begins(event: Event) -> bool:
    """Whether it begins an attempt: input that is too old fails at its claim, before one."""
    return event.verb == "claim" and event.to_state == "processing"


def attempts_rise_by_one(history: History) -> Iterator[str]:
    """The claims of a turn are numbered 1, 2, 3."""
    attempts: dict[str, list[int]] = defaultdict(list)
    for one in history.rows.attempts:
        attempts[one.turn].append(one.number)
    for turn in history.rows.turns:
        numbers = [e.attempt for e in history.turn_events.get(turn.id, ()) if _begins(e)]
        kept = sorted(attempts[turn.id])
        if numbers != list(range(1, turn.attempt + 1)) or kept != numbers:
            yield f"{turn.id} is at attempt {turn.attempt} after {numbers}, with {kept} kept"


def a_token_is_given_once(history: History) -> Iterator[str]:
    """No lease token stands for two attempts, and whoever was given one was given that of his attempt."""
    for token, count in Counter(one.token for one in history.rows.attempts).items():
        if count > 1:
            yield f"a token was given {count} times: {token}"
    for call, given in history.given:
        if history.attempt_of.get((given.turn, given.token)) != given.attempt:
            yield f"{call.asked.agent} was given a token of no such attempt: {given}"


def only_the_holder_is_obeyed(history: History) -> Iterator[str]:
    """What was granted under a token was done by the attempt that it stands for, while it held."""
    claimed: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for call, given in history.given:
        if call.told:
            claimed[given.turn].append((call.told.at, given.attempt))
    for call in history.calls:
        asked = call.asked
        if call.granted is None or asked.verb not in ("renew", *_ENDS):
            continue
        turn = asked.turn or ""
        attempt = history.attempt_of.get((turn, asked.token or ""))
        if attempt is None:
            yield f"{asked.verb} of {turn} was granted to a token that was never given"
            continue
        end = history.end_of(turn, attempt)
        if asked.verb == "renew":
            over = end is not None and end.verb in _GIVEN_BACK
            if any(at < asked.at and later > attempt for at, later in claimed[turn]):
                yield f"a lease of {turn} was renewed after somebody else had claimed it"
            elif over and end and asked.at > history.log_time(end) + CLOCK_SECONDS_MAX:
                yield f"a lease of {turn} was renewed after its {end.verb}"
        elif end is None or end.verb not in _ENDS[asked.verb]:
            by = end.verb if end else "nothing"
            yield f"{asked.verb} of {turn} was granted to attempt {attempt}, which ended by {by}"


def a_lease_lasts(history: History) -> Iterator[str]:
    """Nobody is swept sooner than a whole lease after he claimed, or was last granted a renewal."""
    leases = {(given.turn, given.token): given.lease_seconds for _, given in history.given}
    since: dict[tuple[str, int], float] = {}
    for (turn, token), lease in leases.items():
        attempt = history.attempt_of.get((turn, token))
        claim = history.claim_of(turn, attempt) if attempt else None
        if claim and attempt:
            since[turn, attempt] = claim.at + lease
    for call in history.calls:
        pair = (call.asked.turn or "", call.asked.token or "")
        if call.asked.verb == "renew" and call.granted and pair in leases:
            attempt = history.attempt_of.get(pair, 0)
            until = history.database_time(call.asked.at) + leases[pair]
            since[pair[0], attempt] = max(until, since.get((pair[0], attempt), until))
    for (turn, attempt), until in since.items():
        end = history.end_of(turn, attempt)
        if end and end.verb == "sweep" and end.at < until - CLOCK_SECONDS_MAX:
            yield f"{turn} was swept {until - end.at:.1f} s before the lease of attempt {attempt} ended"


def a_set_is_sealed_once(history: History) -> Iterator[str]:
    """A turn has one seal, one more after each revision, and everybody who was granted one was told the same."""
    for turn in history.rows.turns:
        verbs = [
            e.verb for e in history.turn_events.get(turn.id, ()) if e.verb in ("seal", "revise")
        ]
        if any(pair == ("seal", "seal") for pair in pairwise(verbs)):
            yield f"{turn.id} was sealed more than once: {verbs}"
    for (turn_id, attempt), calls in _seals(history).items():
        granted = [call for call in calls if call.granted]
        told = {
            (call.granted.payload_hash, tuple((m.id, m.key) for m in call.granted.messages))
            for call in granted
            if call.granted
        }
        if len(told) > 1 or len({call.asked.request for call in granted}) > 1:
            yield f"the seals of {turn_id} were granted with {sorted(map(str, told))}"
        number = history.seal_numbers(turn_id).get(attempt, 0)
        kept = tuple((m.id, m.key) for m in history.sets.get((turn_id, number), ()))
        if any(messages != kept for _, messages in told):
            yield f"a seal of {turn_id} was answered with {told}, and {kept} is kept"


def a_set_is_whole(history: History) -> Iterator[str]:
    """A turn has messages if and only if it was sealed: all that its holder asked for, in that order."""
    calls = _seals(history)
    sealed: dict[tuple[str, int], int] = {
        (turn.id, number): attempt
        for turn in history.rows.turns
        for attempt, number in history.seal_numbers(turn.id).items()
    }
    for (turn_id, number), messages in history.sets.items():
        if [message.position for message in messages] != list(range(len(messages))):
            yield f"the set of {turn_id} has positions {[m.position for m in messages]}"
        made_by = {event.verb for m in messages if (event := history.first_move(m.id))}
        if (turn_id, number) not in sealed and made_by - {"edit", "escalate"}:
            yield f"{turn_id} has {len(messages)} messages and no seal"
    for (turn_id, number), attempt in sealed.items():
        bodies = tuple(message.body_base64 for message in history.sets.get((turn_id, number), ()))
        asked = [call.asked.bodies_base64 for call in calls.get((turn_id, attempt), ())]
        if not asked:
            yield f"{turn_id} was sealed in attempt {attempt}, whose holder never asked for it"
        elif None not in asked and bodies not in asked:
            yield f"{turn_id} was sealed with {len(bodies)} messages that nobody asked for together"


def _seals(history: History) -> dict[tuple[str, int], list[Call]]:
    """The calls that wanted to seal, by the turn and the attempt whose token each showed."""
    found: dict[tuple[str, int], list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.asked.verb == "seal":
            turn = call.asked.turn or ""
            found[turn, history.attempt_of.get((turn, call.asked.token or ""), 0)].append(call)
    return found


def attempts_are_counted_once(history: History) -> Iterator[str]:
    """Every claim counts; a release, a park and a revision give it back, a redrive begins anew; and the caps hold."""
    terms = history.terms
    for turn in history.rows.turns:
        claims = releases = free = 0
        for event in history.turn_events.get(turn.id, ()):
            if (event.verb, event.from_state) == ("redrive", "failed"):
                claims = releases = free = 0
            claims += _begins(event)
            releases += event.verb == "release"
            free += event.verb in ("release", "park", "revise")
            if terms.turn_attempts_max and claims - free > terms.turn_attempts_max:
                yield f"{turn.id} was claimed for the {claims - free}th time that counts"
                break
            if terms.releases_max is not None and releases > terms.releases_max + 1:
                yield f"{turn.id} was released {releases} times"
                break
        if turn.attempts_used != claims - free:
            yield f"{turn.id} has used {turn.attempts_used} attempts in {claims} claims, {free} free"


def a_lane_runs_one_turn_at_a_time(history: History) -> Iterator[str]:
    """Turns of a conversation are processed one after another, and begun in the order of their places.

    One that is parked goes on.
    """
    turns = {turn.id: turn for turn in history.rows.turns if turn.conversation is not None}
    moves: dict[object, list[Event]] = defaultdict(list)
    for event in history.rows.events:
        if event.message is None and event.turn in turns:
            turn = turns[event.turn]
            moves[turn.queue, turn.conversation].append(event)
    for lane, events in moves.items():
        running: set[str] = set()
        begun: list[str] = []
        for event in events:
            if event.from_state in ("processing", "parked") and event.to_state != "parked":
                running.discard(event.turn)
            if not _begins(event):
                continue
            if running - {event.turn}:
                yield f"{event.turn} was begun in {lane} while {running} ran"
            running.add(event.turn)
            if event.turn not in begun:
                begun.append(event.turn)
        places = [turns[turn].lane_seq or 0 for turn in begun]
        if places != sorted(places):
            yield f"the turns of {lane} were begun in the order {places}"


def a_claim_has_all_its_inbound(history: History) -> Iterator[str]:
    """Every inbound of a turn was in every claim of it, byte for byte: a turn once claimed gains nothing."""
    kept: dict[str, dict[str, str]] = defaultdict(dict)
    for one in history.rows.inbound:
        kept[one.turn][one.id] = one.body_base64
    for _, given in history.given:
        inbound = kept[given.turn]
        missing = inbound.keys() ^ {one.id for one in given.inbound}
        if missing:
            yield f"attempt {given.attempt} of {given.turn} ran without, or with too much: {missing}"
        for got in given.inbound:
            if got.body_base64 not in (None, inbound.get(got.id)):
                yield f"{got.id} was given to attempt {given.attempt} as {got.body_base64}"


RULES = (
    attempts_rise_by_one,
    a_token_is_given_once,
    only_the_holder_is_obeyed,
    a_lease_lasts,
    a_set_is_sealed_once,
    a_set_is_whole,
    attempts_are_counted_once,
    a_lane_runs_one_turn_at_a_time,
    a_claim_has_all_its_inbound,
)
