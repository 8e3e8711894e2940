"""Equal examples: copies, or coincidences of data that take few values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SAMPLE = 200  # validation examples for which coincidences are estimated
SLACK = 10.0  # by which the estimate may be too low, for columns that depend on each other
PERMUTATIONS = 1999


class Coincidences(NamedTuple):
    """How many validation examples have an equal one in training, how many by chance, and the p value of the surplus.

    Attributes:
        duplicates: how many there are.
        by_chance: how many chance gives, by the test that speaks.
        why: what by_chance is, in words.
        p_value: of so many by chance.

    """

    duplicates: int
    by_chance: float
    why: str
    p_value: float


def coincidences(train: np.ndarray, validation: np.ndarray, contents: np.ndarray, *, seed: int) -> Coincidences:
    """Is it chance that examples of both parts are equal?

    Two things can be wrong, as with near copies, and each has its test (the p value is twice the smaller one):
    - more of them straddle the split than if the same examples were split at random (permutation);
    - there are more than examples that are drawn one by one would have. An example that could be met by chance has
      neighbours that differ from it in few columns; how many of those there are, and how often these columns have
      its values in other examples, says how many equal ones to expect. Measurements with many digits have none, so
      every copy of them is a fact; small counts and categories have many. In a single column equal values say nothing.

    Args:
        train: rows [N, features].
        validation: rows [M, features].
        contents: a number for each of the N + M rows, the same for equal ones.
        seed: of the permutations.

    """
    from scipy.stats import binom

    generator = np.random.default_rng(seed)
    count = len(train)
    is_train = np.arange(len(contents)) < count
    duplicates = _straddling(is_train, contents)
    if duplicates == 0:
        return Coincidences(0, 0.0, "", 1.0)
    expected = len(validation) * _share_by_chance(train, validation, generator)
    share = min(1.0, SLACK * expected / len(validation)) if train.shape[1] > 1 else 1.0
    p_drawn = float(binom.sf(duplicates - 1, len(validation), share))
    # Contents that occur once never straddle the split, so the permutations can leave them out.
    repeated = np.flatnonzero(np.bincount(contents)[contents] > 1)
    _, own = np.unique(contents[repeated], return_inverse=True)
    shuffled = np.array([_straddling(generator.permutation(is_train)[repeated], own) for _ in range(PERMUTATIONS)])
    p_split = (1 + np.sum(shuffled >= duplicates)) / (1 + PERMUTATIONS)
    if p_drawn <= p_split:
        by_chance, why = expected, "examples drawn one by one"
    else:
        by_chance, why = float(shuffled.mean()), "random splits of the same examples"
    return Coincidences(duplicates, by_chance, why, float(min(1.0, 2 * min(p_split, p_drawn))))


def _straddling(is_train: np.ndarray, contents: np.ndarray) -> int:
    """How many validation examples have an equal one in training."""
    in_train = np.bincount(contents[is_train], minlength=int(contents.max()) + 1)
    return int(np.sum(in_train[contents[~is_train]] > 0))


def _share_by_chance(train: np.ndarray, validation: np.ndarray, generator: np.random.Generator) -> float:
    """The probability that an example that was drawn on its own has an equal one in training."""
    chosen = generator.choice(len(validation), min(SAMPLE, len(validation)), replace=False)
    # The number of equal rows is about Poisson, so it is not 0 with probability 1 - exp(-mean).
    return float(np.mean([-np.expm1(-_expected_equals(train, validation[number])) for number in chosen]))


def _expected_equals(train: np.ndarray, example: np.ndarray) -> float:
    """How many rows chance makes equal to an example, judged from those that differ from it in fewest columns.

    Of rows that agree in all but some columns, n do not agree in these either; if a share p of all rows has the
    example's values there, n · p / (1 - p) rows agree everywhere. Rows that are equal do not enter, for they are in
    question.
    """
    differs = train != example
    columns = differs.sum(axis=1)
    unequal = differs[columns > 0]
    if not len(unequal):
        return 0.0
    nearest = unequal[columns[columns > 0] == columns[columns > 0].min()]
    masks, numbers = np.unique(nearest, axis=0, return_counts=True)
    shares = np.array([np.mean(~unequal[:, mask].any(axis=1)) for mask in masks])
    return float(np.mean(numbers * shares / (1 - shares)))
