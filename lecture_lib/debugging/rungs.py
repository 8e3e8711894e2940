"""The seven rungs, and what is asked on each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ._engine.assumptions import Rule as RecordingRule
from ._engine.evidence import Evidence
from ._engine.rung_texts import WHY
from .faults.baseline_rules import no_better_than_baseline, worthless_metric
from .faults.data_hypotheses import weighted_wrongly
from .faults.data_rules import DATA_RULES, binary_targets
from .faults.error_rules import stopped
from .faults.error_slices import confidence_off, failing_slice, leans_on_a_part
from .faults.evaluation_rules import EVALUATION_RULES, schedule_misstepped, trained_in_evaluation_mode
from .faults.finding import Finding
from .faults.input_rules import other_statistics
from .faults.label_hypotheses import gives_target_away
from .faults.loop_rules import LOOP_RULES
from .faults.loss_probes import broadcast
from .faults.loss_rules import (
    LOSS_RULES,
    divergence_misused,
    nll_of_no_logarithms,
    sigmoid_twice,
    softmax_twice,
    summed_in_the_step,
    unfit,
    unstable,
)
from .faults.metric_rules import METRIC_RULES
from .faults.model_rules import MODEL_RULES, all_affine, inputs_ignored, outputs_random
from .faults.noise_hypotheses import noisy_labels
from .faults.run_hypotheses import memorised
from .faults.wiring_rules import WIRING_RULES

Rule = Callable[[Evidence], Finding | None]


@dataclass(frozen=True)
class Rung:
    """A rung.

    Attributes:
        number: 1 to 7.
        name: of the rung.
        criterion: when it holds.
        rules: what identities say.
        hypotheses: what comparisons of runs say; asked only where no rule of any rung has found anything.

    """

    number: int
    name: str
    criterion: str
    rules: tuple[Rule, ...]
    hypotheses: tuple[Rule, ...] = ()

    @property
    def why(self) -> str:
        """What the rung is for, and why it stands there."""
        return WHY[self.number]


def of_recording(rule: RecordingRule) -> Rule:
    """A rule about a recording as one about all evidence."""

    def ask(evidence: Evidence) -> Finding | None:
        return None if evidence.run.error else rule(evidence.run.recording, evidence.full_spec)

    ask.__name__ = rule.__name__
    return ask


RUNGS = (
    Rung(
        1,
        "data",
        "Batches keep their contract; validation is honest and like training.",
        (other_statistics, *DATA_RULES),
        (noisy_labels,),
    ),
    Rung(
        2,
        "baselines",
        "The program looks at its inputs and beats rules that do not learn.",
        (inputs_ignored, unfit, all_affine, worthless_metric),
        (gives_target_away,),
    ),
    Rung(
        3,
        "one batch",
        "Each step follows the gradient of the loss that is meant, for all parameters; one batch is learnt by heart.",
        (stopped, *LOSS_RULES, *map(of_recording, LOOP_RULES), *map(of_recording, WIRING_RULES), *MODEL_RULES),
    ),
    Rung(
        4,
        "small subset",
        "A few hundred examples are learnt, in all layers.",
        (weighted_wrongly,),
    ),
    Rung(
        5,
        "learning rate",
        "No other rate, schedule or batch size does clearly better.",
        (schedule_misstepped,),
    ),
    Rung(
        6,
        "full run",
        "The curves are sound, and the numbers reported mean what they say.",
        (outputs_random, *EVALUATION_RULES, *METRIC_RULES),
        (memorised,),
    ),
    Rung(
        7,
        "errors",
        "No slice fails, no shortcut carries, confidence fits.",
        (),
        (leans_on_a_part, failing_slice, confidence_off, no_better_than_baseline),
    ),
)

# What can be asked of a recording without its program.
# By name, because `of_recording` has wrapped the rules on the rungs.
_NAMES = {rule.__name__ for rule in (*LOOP_RULES, *WIRING_RULES)}
OF_RECORDINGS = frozenset(rule for rung in RUNGS for rule in rung.rules if rule.__name__ in _NAMES) | {
    softmax_twice,
    sigmoid_twice,
    nll_of_no_logarithms,
    divergence_misused,
    broadcast,
    summed_in_the_step,
    unstable,
    unfit,
    binary_targets,
    trained_in_evaluation_mode,
}
