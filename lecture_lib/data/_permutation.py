"""Tests by permutation within strata, for the shift report."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

PERMUTATIONS = 999
FOLDS = 5
RIDGE = 0.1  # times the number of examples that are fitted on; features have variance 1


@dataclass(frozen=True)
class Association:
    """How far values go with a target inside strata.

    Attributes:
        slope: by how much the values grow when the target grows by 1; for a target 0 or 1 the difference of means.
        correlation: pooled within strata, -1..1.
        p_value: how often a permutation of the target within strata reaches this, one-sided.
        values: what was compared with the target, [N].

    """

    slope: float
    correlation: float
    p_value: float
    values: np.ndarray = field(repr=False)


def predicted(features: np.ndarray, target: np.ndarray, strata: np.ndarray, seed: int) -> Association:
    """Can a linear model tell the target from the features? Its scores' ranks are compared within strata only.

    Ridge regression, cross-fitted in FOLDS folds: no example is scored by a model that has seen its target. The model
    is fitted anew for every permutation, all of them in one matrix product, so the p value is exact. Values and slope
    are in shares of a stratum's ranks: for a target 0 or 1 in one stratum, slope is AUC - 0.5.
    """
    generator = np.random.default_rng(seed)
    # In random order: examples of equal score must not be ranked by the part that they came from.
    order = generator.permutation(len(target))
    features, strata = centre(features[order], strata[order]), strata[order]
    columns = centre(permutations_of(target[order], strata, generator), strata)
    scores = np.empty_like(columns)
    for fold in range(FOLDS):
        held_out = np.arange(len(target)) % FOLDS == fold
        fitted = features[~held_out]
        gram = fitted.T @ fitted + RIDGE * len(fitted) * np.eye(fitted.shape[1], dtype=np.float32)
        scores[held_out] = features[held_out] @ np.linalg.solve(gram, fitted.T @ columns[~held_out])
    ranks = _ranks_within(scores, strata)
    association = _compare(ranks, columns)
    values = np.empty(len(target))
    values[order] = ranks[:, 0]
    return Association(association.slope, association.correlation, association.p_value, values)


def associated(values: np.ndarray, target: np.ndarray, strata: np.ndarray, seed: int) -> Association:
    """Do given values grow (or fall) with the target within strata? Two-sided."""
    columns = centre(permutations_of(target, strata, np.random.default_rng(seed)), strata)
    centred = centre(values[:, None].astype(np.float32), strata)
    association = _compare(centred, columns, two_sided=True)
    return Association(association.slope, association.correlation, association.p_value, values)


def permutations_of(target: np.ndarray, strata: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The target and, beside it, its permutations within strata: float32 [N, 1 + PERMUTATIONS]."""
    # Sorting the keys shuffles inside the strata only: below 1, the random part never reaches the next stratum.
    keys = strata[:, None] + 0.99 * generator.random((len(target), PERMUTATIONS))
    columns = np.empty((len(target), 1 + PERMUTATIONS), dtype=np.float32)
    columns[:, 0] = target
    columns[np.argsort(strata, kind="stable"), 1:] = target[np.argsort(keys, axis=0)]
    return columns


def centre(columns: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """Columns minus their mean in each stratum; strata are whole numbers from 0, each in use."""
    member = np.eye(strata.max() + 1, dtype=np.float32)[strata]
    return columns - (member.T @ columns / member.sum(axis=0)[:, None])[strata]


def _ranks_within(scores: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """Ranks in each stratum, from -0.5 (lowest) to 0.5."""
    # One stratum after the other: a stratum's ranks then differ from its own ranks by a constant.
    separated = scores + (strata * (2 * np.abs(scores).max() + 1))[:, None].astype(scores.dtype)
    ranks = np.empty_like(scores)
    places = np.arange(len(scores), dtype=scores.dtype)[:, None]
    np.put_along_axis(ranks, np.argsort(separated, axis=0), places, axis=0)
    return centre(ranks, strata) / np.bincount(strata)[strata][:, None]


def _compare(values: np.ndarray, columns: np.ndarray, two_sided: bool = False) -> Association:
    products = (values * columns).sum(axis=0, dtype=np.float64)
    slopes = products / max(float((columns[:, 0] ** 2).sum()), 1e-12)
    spread = float(np.sqrt((columns[:, 0] ** 2).sum() * (values[:, 0] ** 2).sum()))
    reach = np.abs(slopes) if two_sided else slopes
    # The small part keeps rounding from telling equal permutations apart.
    p_value = float(np.mean(reach >= reach[0] - 1e-9 * max(abs(reach[0]), 1e-12)))
    return Association(float(slopes[0]), float(products[0]) / max(spread, 1e-12), p_value, values)
