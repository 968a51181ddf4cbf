"""Every verb, brought to where a crash in it would hurt: a name for each, of a call of one family of verbs."""

from collections.abc import Mapping

from tests.crash import (
    delivery_trials,
    intervention_trials,
    purge_trials,
    turn_trials,
    waiting_trials,
)
from tests.crash.scene import Trial

TRIALS: Mapping[str, Trial] = {
    **turn_trials.TRIALS,
    **delivery_trials.TRIALS,
    **intervention_trials.TRIALS,
    **purge_trials.TRIALS,
    **waiting_trials.TRIALS,
}
