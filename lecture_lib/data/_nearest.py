"""Near duplicates: pairs of examples that are much closer than the data around them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NEIGHBOURS = 16
COPIES = 5  # at most so many copies of one example are told from a dense region
GAP = 3.0  # from the copies to the neighbour after them distances jump by this factor or more
CLOSE = 0.5  # and the copies lie within this part of the median distance to an ordinary neighbour
LEAST, LEAST_SHARE = 3, 0.01  # validation examples with a near copy, below which nothing is said
PERMUTATIONS = 1999


class NearCopies(NamedTuple):
    """Pairs, one for each validation example with a near copy in training; p value; how many pairs chance makes."""

    train: np.ndarray
    validation: np.ndarray
    p_value: float
    by_chance: float


def near_copies(train: np.ndarray, validation: np.ndarray, *, seed: int) -> NearCopies:
    """Compare nearest neighbours validation → training with training → training.

    A near copy comes before a gap: among an example's nearest neighbours in both parts together, the distance jumps
    by GAP right after it. Where data only cluster, copies and neighbours are dense alike and there is no gap.
    Two things can be wrong with the pairs, and each has its test (the p value is twice the smaller one):
    - more of them straddle the split than if the same examples were split at random (permutation);
    - there are more than the gaps of evenly spread points allow, d(k+1)/d(k) > g with probability g^(-k·dimension);
      Facco et al. 2017, Estimating the intrinsic dimension, https://doi.org/10.1038/s41598-017-11873-y. That finds
      copies made before a random split, which straddle no more than chance.

    Args:
        train: rows [N, features], float32, all different.
        validation: rows [M, features], none of them in train.
        seed: of the permutations.

    """
    from scipy.stats import binom
    from sklearn.neighbors import NearestNeighbors

    count, total = len(train), len(train) + len(validation)
    no_pairs = np.zeros(0, dtype=np.int64)
    if not len(validation) or total <= NEIGHBOURS:
        return NearCopies(no_pairs, no_pairs, 1.0, 0.0)
    # Brute force, because with many features a tree is slower than comparing all pairs.
    pool = NearestNeighbors(n_neighbors=NEIGHBOURS, algorithm="brute").fit(np.concatenate([train, validation]))
    distances, neighbours = pool.kneighbors()
    left, right = _pairs(distances, neighbours)
    is_train = np.arange(total) < count
    copies, originals = _straddling(is_train, left, right)
    if len(copies) < max(LEAST, LEAST_SHARE * len(validation)):
        return NearCopies(no_pairs, no_pairs, 1.0, 0.0)
    generator = np.random.default_rng(seed)
    shuffled = (_straddling(generator.permutation(is_train), left, right)[0] for _ in range(PERMUTATIONS))
    by_chance = np.array([len(examples) for examples in shuffled])
    p_split = (1 + np.sum(by_chance >= len(copies))) / (1 + PERMUTATIONS)
    p_gap = binom.sf(len(copies) - 1, len(validation), _chance_of_gap(distances[left]))
    return NearCopies(originals, copies - count, float(min(1.0, 2 * min(p_split, p_gap))), float(by_chance.mean()))


def _pairs(distances: np.ndarray, neighbours: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each example and its neighbours before the widest gap, when that gap is wide enough; by example."""
    # Copies within one part may be exact: a ratio needs a distance above 0.
    distances = np.maximum(distances.astype(np.float64), 1e-12)
    gaps = distances[:, 1 : COPIES + 1] / distances[:, :COPIES]
    gaps[distances[:, :COPIES] > CLOSE * np.median(distances[:, COPIES])] = 0
    copies = np.where(gaps.max(axis=1) >= GAP, gaps.argmax(axis=1) + 1, 0)
    left, rank = np.nonzero(np.arange(COPIES) < copies[:, None])
    return left, neighbours[left, rank]


def _straddling(is_train: np.ndarray, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each validation example with copies in training, and the nearest of those."""
    across = ~is_train[left] & is_train[right]
    copies, position = np.unique(left[across], return_index=True)
    return copies, right[across][position]


def _chance_of_gap(distances: np.ndarray) -> float:
    """How often evenly spread points have such a gap, in the dimension around the examples that have one.

    The dimension is read from neighbours beyond the copies, so the copies do not change it.
    """
    beyond = np.log(np.maximum(distances[:, COPIES:].astype(np.float64), 1e-12))
    # k · dimension · log(d(k+1) / d(k)) is exponential with mean 1.
    spacings = np.diff(beyond, axis=1) * np.arange(COPIES + 1, NEIGHBOURS)
    dimension = 1 / max(float(spacings.mean()), 1e-9)
    return float(1 - np.prod(1 - GAP ** (-dimension * np.arange(1, COPIES + 1))))
