"""The null world: labels that mean nothing, permuted before the whole pipeline."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from ._columns import as_classes, same_length, several_classes

DO = (
    "Split first. Then fit every step that sees labels (feature selection, target encoding, resampling, choice of a "
    "model or epoch) on the training part alone; a Pipeline inside the split does that."
)


@dataclass(frozen=True)
class NullWorld:
    """What a pipeline scores when there is nothing to learn.

    Attributes:
        found: whether it scores above chance all the same.
        score: with the true labels.
        null_scores: with permuted labels, [permutations].
        excess: mean of the null scores minus chance.
        p_value: of a mean this far above chance (one-sided t-test).
        evidence: in words.
        do: what to do about it; empty when nothing was found.

    """

    found: bool
    score: float
    null_scores: np.ndarray = field(repr=False)
    excess: float
    p_value: float
    evidence: str
    do: str


def fitted_on_all_data(
    pipeline: Callable[[Any, Any], float],
    inputs: Any,
    labels: Tensor | np.ndarray,
    *,
    seed: int,
    chance: float | None = None,
    permutations: int = 30,
    floor: float = 0.05,
    alpha: float = 0.002,
) -> NullWorld:
    """Does something in the pipeline see validation labels?

    Labels are permuted before the whole pipeline, so nothing can be learned: a validation score above chance then
    comes from validation labels that were used, as in feature selection on all data before the split. A step that
    uses no labels (a scaler fitted on all data) leaves no trace here.

    Source: lecture part 3, validation.

    Args:
        pipeline: called with inputs and labels; splits, preprocesses and trains, returns the validation score, higher
            is better. It is called permutations + 1 times: make it cheap.
        inputs: N examples, passed on unchanged.
        labels: class of each example, integers [N], tensor or array.
        seed: of the permutations; the pipeline's own randomness is its own affair.
        chance: score of a guess; default: the share of the largest class, which is right for accuracy. Pass 0.5 for
            AUROC, 1 / classes for balanced accuracy.
        permutations: how many null scores, 5 or more.
        floor: smallest excess over chance that is reported, in units of the score.
        alpha: error rate of the test.

    Raises:
        ValueError: lengths differ, there is one class only, fewer than 5 permutations or a score that is not finite.

    """
    from scipy.stats import t

    classes = as_classes(labels)
    same_length(classes, len(inputs), "labels")
    several_classes(classes)
    if permutations < 5:
        raise ValueError(f"permutations is {permutations}; a mean and its spread need 5 or more, for example 30.")
    chance = float(np.unique(classes, return_counts=True)[1].max() / len(classes)) if chance is None else chance
    generator = np.random.default_rng(seed)
    orders = [np.arange(len(classes)), *(generator.permutation(len(classes)) for _ in range(permutations))]
    score, *permuted_scores = (float(pipeline(inputs, labels[order])) for order in orders)
    if not all(map(math.isfinite, [score, *permuted_scores])):
        raise ValueError("the pipeline returned a score that is not finite. Look at its loss and its split.")
    null = np.array(permuted_scores)
    excess, error = float(null.mean() - chance), float(null.std(ddof=1)) / math.sqrt(permutations)
    # Scores without any spread say the same thing every time.
    p_value = float(t.sf(excess / error, permutations - 1)) if error else float(excess <= 0)
    above_chance = excess >= floor and p_value <= alpha
    evidence = (
        f"with permuted labels the pipeline scores {null.mean():.3f} on average ({permutations} times, from "
        f"{null.min():.3f} to {null.max():.3f}) where chance is {chance:.3f}; with the true labels {score:.3f}"
    )
    return NullWorld(above_chance, score, null, excess, p_value, evidence, DO if above_chance else "")
