"""Shift: how validation differs from training, which kind it is, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import _shift_tests as tests
from ._columns import Column, as_classes, as_rows, as_times, both_sides, same_width, several_classes
from ._permutation import Association, associated, predicted
from ._shift_result import FLOORS, RESPONSES, Shift, ShiftReport

LEAST, MOST = 40, 4000  # examples in a part; examples in all, more are drawn from at random
SEPARATE = 0.8  # AUC from which on parts have too few examples that could be compared
INSIDE_FLOOR = 0.55  # AUC within classes that a covariate shift needs besides
KS_FLOOR = 0.2
HINT = 0.05
BINS = 5
TESTS = 5  # classifier, feature by feature, label, concept, temporal


def shift_report(
    train: Column,
    validation: Column,
    *,
    labels: tuple[Column, Column] | None = None,
    times: tuple[Column, Column] | None = None,
    seed: int = 0,
    alpha: float = 0.005,
) -> ShiftReport:
    """Say whether validation's inputs, labels or their relation differ from training's, or drift with time.

    - covariate: the parts can be told apart (classifier two-sample test, Kolmogorov-Smirnov with Holm's correction),
      and with labels also inside the classes: otherwise other shares of the classes explain it.
    - label: the classes' shares differ (chi-squared, Cramér's V).
    - concept: labels fit a model of training examples worse or better than held-out training labels do, in the same
      class and, when there is covariate shift, among examples that look alike.
    - temporal: time can be told from inputs and labels, inside training and inside validation.

    A kind is found when its effect reaches FLOORS and its p value alpha / 5, so that all stay below alpha.

    Source: lecture part 3, validation; Quiñonero-Candela et al. 2009, Dataset Shift in Machine Learning.

    Args:
        train: training inputs, numbers [N, ...], N of 40 or more; more than 4,000 examples are drawn from.
        validation: validation inputs, [M, ...].
        labels: (of training, of validation), class indices from 0; for label and concept.
        times: (of training, of validation), numbers or dates; for temporal.
        seed: of permutations, folds and the choice of examples.
        alpha: the error rate of the report.

    Returns:
        Four answers, the primary kind, the features that differ, and what cannot be told.

    Raises:
        ValueError: shapes or lengths differ, a part is too small, labels hold one class only or are negative, or
            something is missing or not finite.

    """
    rows = as_rows(train, "training inputs"), as_rows(validation, "validation inputs")
    same_width(*rows)
    sizes = len(rows[0]), len(rows[1])
    if min(sizes) < LEAST:
        raise ValueError(f"{sizes[0]} training and {sizes[1]} validation examples; {LEAST} or more of each are needed.")
    classes = None if labels is None else np.concatenate(both_sides(labels, sizes, "labels", as_classes))
    stamps = None if times is None else np.concatenate(both_sides(times, sizes, "times", as_times))
    if classes is not None:
        several_classes(classes[: sizes[0]])
    order = np.random.default_rng(seed).permutation(sum(sizes))[:MOST]
    columns, part = tests.standardised(np.concatenate(rows)[order]), np.repeat([0, 1], sizes)[order]
    sample = _Sample(columns, tests.with_squares(columns, seed), part, seed, alpha / TESTS)
    if classes is None:
        covariate, features, _, _ = _covariate(sample, np.zeros_like(part), explained=False)
        label, concept = (_answer(kind, None, "labels were not given") for kind in ("label", "concept"))
    else:
        classes = classes[order]
        effect, p_value = tests.class_balance(classes, part)
        # Where inputs changed, but not inside the classes, a weaker p value of the classes' shares is enough.
        explained = effect >= FLOORS["label"] and p_value <= HINT
        covariate, features, separable, inside = _covariate(sample, tests.strata_of(classes), explained)
        unequal = explained and (p_value <= sample.level or (separable and not covariate.found))
        label = _answer("label", unequal, _shares(classes, part), effect, p_value)
        concept = _concept(sample, tests.strata_of(classes), inside)
    temporal = _answer("temporal", None, "times were not given")
    if stamps is not None:
        temporal = _temporal(sample, classes, stamps[order])
    shifts = covariate, label, concept, temporal
    # What explains the others comes first: drift the rest, and a changed relation what reweighting leaves.
    kinds = [shift.kind for shift in shifts if shift.found]
    primary = next((kind for kind in ("temporal", "concept", "covariate", "label") if kind in kinds), None)
    return ShiftReport(shifts, primary, features)


@dataclass(frozen=True)
class _Sample:
    """Both parts: standardised columns, what linear tests look at, 0 for training and 1 for validation."""

    columns: np.ndarray
    features: np.ndarray
    part: np.ndarray
    seed: int
    level: float  # a test's error rate


def _answer(
    kind: str, shifted: bool | None, evidence: str, effect: float | None = None, p_value: float | None = None
) -> Shift:
    return Shift(kind, shifted, effect, p_value, evidence, RESPONSES[kind] if shifted else "")


def _tested(kind: str, sample: _Sample, effect: float, p_value: float, evidence: str) -> Shift:
    return _answer(kind, abs(effect) >= FLOORS[kind] and p_value <= sample.level, evidence, effect, p_value)


def _covariate(
    sample: _Sample, strata: np.ndarray, explained: bool
) -> tuple[Shift, tuple[tuple[int, float, float], ...], bool, Association]:
    """The answer, the inputs that differ, whether the parts can be told apart at all, and inside the strata."""
    overall = predicted(sample.features, sample.part, np.zeros_like(sample.part), sample.seed)
    inside = predicted(sample.features, sample.part, strata, sample.seed) if strata.any() else overall
    distances, adjusted = tests.feature_by_feature(sample.columns, sample.part)
    differ = np.flatnonzero((distances >= KS_FLOOR) & (adjusted <= sample.level))
    auc, auc_inside = 0.5 + overall.slope, 0.5 + inside.slope
    separable = (auc >= FLOORS["covariate"] and overall.p_value <= sample.level) or len(differ) > 0
    shifted = separable and (not explained or (auc_inside >= INSIDE_FLOOR and inside.p_value <= sample.level))
    evidence = (
        f"AUC {auc:.2f} of telling the parts apart (p {overall.p_value:.3f}), {auc_inside:.2f} inside the classes "
        f"(p {inside.p_value:.3f}); {len(differ)} of {len(distances)} inputs differ one by one"
    )
    largest = differ[np.argsort(-distances[differ], kind="stable")] if shifted else differ[:0]
    listed = tuple((int(number), float(distances[number]), float(adjusted[number])) for number in largest)
    # The smaller of two p values counts twice, because either test alone may report the shift.
    p_value = min(1.0, 2 * min(overall.p_value, float(adjusted.min())))
    return _answer("covariate", shifted, evidence, auc, p_value), listed, separable, inside


def _shares(classes: np.ndarray, part: np.ndarray) -> str:
    names = np.unique(classes)
    before, after = ((classes[part == side][:, None] == names).mean(axis=0) for side in (0, 1))
    most = int(np.abs(after - before).argmax())
    return f"class {names[most]} changes most, from {before[most]:.1%} of training to {after[most]:.1%} of validation"


def _concept(sample: _Sample, classes: np.ndarray, inside: Association) -> Shift:
    if 0.5 + inside.slope >= SEPARATE:
        return _answer("concept", None, "the inputs of the parts are too different to compare alike ones")
    scores = tests.reduced(sample.columns, sample.seed)[0]
    surprise = tests.surprises(scores, classes, sample.part, sample.seed)
    # Among examples of one class that look alike: neither other shares nor other inputs explain a difference.
    bins = np.digitize(inside.values, np.quantile(inside.values, np.arange(1, BINS) / BINS))
    association = associated(surprise, sample.part, tests.strata_of(classes, bins), sample.seed)
    evidence = (
        f"labels of validation surprise a model of training by {association.slope:+.2f} nats more than held-out "
        f"training labels do (p {association.p_value:.3f}), among examples of one class that look alike"
    )
    return _tested("concept", sample, association.slope, association.p_value, evidence)


def _temporal(sample: _Sample, classes: np.ndarray | None, times: np.ndarray) -> Shift:
    features, ranks = sample.features, np.empty(len(times))
    if classes is not None:
        member = np.eye(len(np.unique(classes)), dtype=np.float32)[tests.strata_of(classes)]
        features = np.concatenate([features, tests.standardised(member)], axis=1)
    # Ranks within each part: validation that simply comes later is no drift, and the unit of time does not matter.
    for side in (sample.part == 0, sample.part == 1):
        ranks[side] = np.unique(times[side], return_inverse=True)[1] / side.sum()
    association = predicted(features, ranks, sample.part, sample.seed)
    evidence = (
        f"rank correlation {association.correlation:.2f} of time with what examples tell of it, inside training and "
        f"inside validation (p {association.p_value:.3f})"
    )
    return _tested("temporal", sample, association.correlation, association.p_value, evidence)
