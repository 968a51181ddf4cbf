"""Every bug that can be planted, with the scenario that goes past it and the rule that it breaks there."""

from tests.plants import delivery_plants, input_plants, turn_plants
from tests.plants import http_scenarios as http
from tests.plants import scenarios as played
from tests.plants.planting import Plant
from tests.plants.scenarios import Scenario

PLANTS: dict[str, Plant] = {
    **input_plants.PLANTS,
    **turn_plants.PLANTS,
    **delivery_plants.PLANTS,
}

CASES: dict[str, tuple[Scenario, str]] = {
    "looked-up-first": (played.twins, "a_key_has_one_handle"),
    "acknowledged-first": (played.crash_behind_an_accept, "no_accept_is_lost"),
    "minted-outside": (played.twins, "a_key_has_one_handle"),
    "through-jsonb": (played.twins, "no_accept_is_lost"),
    "duplicate-409": (http.told_twice, "a_repeat_is_welcome"),
    "join-claimed": (played.joined_late, "a_claim_has_all_its_inbound"),
    "join-unlocked": (played.joined_at_the_claim, "a_claim_has_all_its_inbound"),
    "blind-sweep": (played.renewal_against_sweep, "a_lease_lasts"),
    "renew-tokenless": (played.zombie, "only_the_holder_is_obeyed"),
    "seal-tokenless": (played.zombie, "only_the_holder_is_obeyed"),
    "seal-in-two": (played.seal_without_a_database, "a_set_is_whole"),
    "messages-after": (played.seal_without_a_database, "a_set_is_whole"),
    "no-promote": (played.one_lane, "every_turn_comes_to_its_end"),
    "uncounted-crash": (played.crash_loop, "attempts_are_counted_once"),
    "counted-twice": (played.crash_loop, "attempts_are_counted_once"),
    "token-again": (played.crash_loop, "a_token_is_given_once"),
    "statement-retried": (played.seal_in_a_deadlock, "a_set_is_whole"),
    "own-clock": (played.behind_the_times, "a_lease_lasts"),
    "cancel-spares": (played.cancelled_after_its_seal, "cancel_is_final"),
    "pause-ignored": (played.stopped_and_let_go, "what_is_paused_stands"),
    "pause-unsent": (played.stopped_and_let_go, "what_is_paused_stands"),
    "still-ages": (played.stopped_for_days, "what_stands_still_does_not_age"),
    "never-probed": (played.down_for_a_while, "every_turn_comes_to_its_end"),
    "never-given-back": (played.down_for_a_while, "every_turn_comes_to_its_end"),
    "old-keeps-lane": (played.left_too_long, "every_turn_comes_to_its_end"),
    "key-per-attempt": (played.busy_receiver, "nothing_is_sent_before_its_seal"),
    "confirmed-by-404": (played.busy_receiver, "what_is_confirmed_was_received"),
    "confirmed-unanswered": (http.slow_answer, "what_is_confirmed_was_received"),
    "swallowed-confirmation": (
        http.database_gone_at_the_confirmation,
        "nothing_confirmed_is_sent_again",
    ),
    "no-polling": (http.lost_notification, "nothing_due_is_left_undone"),
    "replied-by-one": (played.two_destinations, "replied_means_all_delivered"),
    "replied-unlocked": (played.two_destinations, "replied_means_all_delivered"),
    "order-by-id": (played.slow_clock, "first_attempts_are_in_order"),
    "blind-take": (played.busy_receiver, "first_attempts_are_in_order"),
    "strict-forgotten": (played.cancelled_in_a_strict_set, "first_attempts_are_in_order"),
    "held-swept": (played.held_for_a_person, "what_is_held_waits_for_a_person"),
    "resend-forgotten": (played.resent_by_one_who_died, "a_resend_is_performed"),
    "one-blocker": (played.cancelled_in_the_middle, "first_attempts_are_in_order"),
    "parallel-redrive": (played.redriven_while_sent, "only_declared_moves_are_made"),
    "stop-ignored": (played.cancelled_while_sent, "cancel_is_final"),
    "doubt-forgotten": (played.confirmed_and_refused, "what_arrived_is_not_given_up"),
}
