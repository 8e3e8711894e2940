"""The seven rungs, and what is asked on each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ._engine.assumptions import Rule as RecordingRule
from ._engine.evidence import Evidence
from ._engine.rung_texts import WHY
from .faults.baseline_rules import no_better_than_baseline, worthless_metric
from .faults.best_answers import evaluation_reads_outputs_otherwise
from .faults.data_hypotheses import weighted_wrongly
from .faults.data_rules import DATA_RULES, binary_targets
from .faults.error_rules import stopped
from .faults.error_slices import confidence_off, failing_slice, leans_on_a_part
from .faults.evaluation_rules import (
    EVALUATION_RULES,
    rate_never_reached,
    schedule_misstepped,
    trained_in_evaluation_mode,
    waits_for_the_worse,
)
from .faults.finding import Finding
from .faults.id_rules import rows_shared_by_columns
from .faults.input_rules import changes_with_its_batch, other_statistics, reads_its_target
from .faults.label_hypotheses import gives_target_away
from .faults.loop_rules import LOOP_RULES, hardly_any_examples
from .faults.loss_and_metric import leads_away_from_right_answers
from .faults.loss_probes import wants_all_alike
from .faults.loss_rules import (
    LOSS_RULES,
    divergence_misused,
    nll_of_no_logarithms,
    one_output_rules,
    sigmoid_twice,
    softmax_twice,
    summed_in_the_step,
    unfit,
    unstable,
)
from .faults.loss_symmetries import broadcast
from .faults.metric_rules import METRIC_RULES
from .faults.model_rules import MODEL_RULES, all_affine, inputs_ignored, outputs_random
from .faults.named_metrics import NAMED_METRIC_RULES
from .faults.noise_hypotheses import noisy_labels
from .faults.padding_rules import padding_leaks
from .faults.reach_rules import targets_out_of_reach
from .faults.run_hypotheses import memorised
from .faults.weight_rules import stuck_at_zero, sure_before_training
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
        """What the rung is for, and why it is there."""
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
        "Batches have the right shapes and types; validation shares nothing with training and looks like it.",
        (other_statistics, changes_with_its_batch, reads_its_target, *DATA_RULES),
        (noisy_labels,),
    ),
    Rung(
        2,
        "baselines",
        "The outputs change with the inputs, and no single input gives the answer away.",
        (inputs_ignored, unfit, all_affine, worthless_metric),
        (gives_target_away,),
    ),
    Rung(
        3,
        "one batch",
        "Each step uses the right gradient for every parameter, and one batch can be memorised.",
        (
            stopped,
            *LOSS_RULES,
            leads_away_from_right_answers,
            hardly_any_examples,
            *map(of_recording, LOOP_RULES),
            *map(of_recording, WIRING_RULES),
            *MODEL_RULES,
            padding_leaks,
        ),
        (wants_all_alike,),
    ),
    Rung(
        4,
        "small subset",
        "A few hundred training examples can be learned, and every layer takes part.",
        (stuck_at_zero, rows_shared_by_columns, weighted_wrongly, targets_out_of_reach),
        (one_output_rules, sure_before_training),
    ),
    Rung(
        5,
        "learning rate",
        "No other rate, schedule or batch size does clearly better.",
        (schedule_misstepped, rate_never_reached, waits_for_the_worse),
    ),
    Rung(
        6,
        "full run",
        "The curves move, and reported numbers mean what they say. (A gap between them is no fault.)",
        (outputs_random, *EVALUATION_RULES, *METRIC_RULES, evaluation_reads_outputs_otherwise, *NAMED_METRIC_RULES),
        (memorised,),
    ),
    Rung(
        7,
        "errors",
        "No group of examples does much worse, no shortcut explains the score, confidence agrees with accuracy.",
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
