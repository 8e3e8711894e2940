"""Pairs of tables of counts for 03b-shift, drawn until one differs as a plan wants it and in nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from ..cases import Case

LIMIT = 0.1
SAME, CHANGED = 0.06, 0.14  # the largest difference of no distribution lies between them
POOL = 20_000

Tables = np.ndarray
"""Counts or shares of the pairs (x, y), [..., 3, 2]."""
FORMS: dict[str, Callable[[Tables], np.ndarray]] = {
    "x": lambda table: table.sum(axis=-1) / table.sum(axis=(-2, -1))[..., None],
    "y": lambda table: table.sum(axis=-2) / table.sum(axis=(-2, -1))[..., None],
    "y|x": lambda table: table / table.sum(axis=-1, keepdims=True).clip(1e-9),
    "x|y": lambda table: table / table.sum(axis=-2, keepdims=True).clip(1e-9),
}
ALL = set(FORMS)


def differences(first: Tables, second: Tables) -> dict[str, np.ndarray]:
    return {name: form(second) - form(first) for name, form in FORMS.items()}


Size = Callable[[np.ndarray], np.ndarray]
"""How large the differences of a distribution are together, [..., k] to [...]."""


def largest(differences: np.ndarray) -> np.ndarray:
    return np.abs(differences).max(axis=-1)


def largest_rise(differences: np.ndarray) -> np.ndarray:
    return np.asarray(differences.max(axis=-1))


def largest_fall(differences: np.ndarray) -> np.ndarray:
    return np.asarray(-differences.min(axis=-1))


def total(differences: np.ndarray) -> np.ndarray:
    return np.abs(differences).sum(axis=-1)


def average(differences: np.ndarray) -> np.ndarray:
    return np.abs(differences).mean(axis=-1)


def undecided(first: Tables, second: Tables) -> np.ndarray:
    """For which pairs of tables, [n, 3, 2], two right ways to compare them may differ.

    Where a table lacks an input or a label, whose shares are then 0/0: nan in one way, 0 in another. And where a size
    equals the limit but for rounding.
    """
    each = [difference.reshape(len(first), -1) for difference in differences(first, second).values()]
    sizes = [size(flat) for flat in each for size in (largest, largest_rise, largest_fall, total, average)]
    at_limit = np.isclose(sizes, LIMIT, rtol=0, atol=1e-9).any(axis=0)
    lacks = [(table.sum(axis=axis) == 0).any(axis=1) for table in (first, second) for axis in (1, 2)]
    return np.asarray(np.any([at_limit, *lacks], axis=0))


class Pairs:
    """Two tables of counts, many times, [n, 3, 2]."""

    def __init__(self, first: Tables, second: Tables) -> None:
        self.first, self.second, self.differences = first, second, differences(first, second)
        self.gaps = {name: np.abs(d).reshape(len(d), -1).max(axis=1) for name, d in self.differences.items()}

    def clear(self) -> Pairs:
        """Those with every input and label on both sides, no largest difference near the limit, and no size on it."""
        clear = [(gap <= SAME) | (gap >= CHANGED) for gap in self.gaps.values()]
        rows = np.flatnonzero(np.all(clear, axis=0))
        rows = rows[~undecided(self.first[rows], self.second[rows])]
        return Pairs(self.first[rows], self.second[rows])


Wanted = Callable[[Pairs], np.ndarray]
"""Which pairs of tables are as a plan wants them, [n]."""


def changed(*names: str) -> Wanted:
    """Exactly these distributions change."""
    return lambda pairs: np.all([(gap > LIMIT) == (name in names) for name, gap in pairs.gaps.items()], axis=0)


def subset(*names: str) -> Wanted:
    """Exactly these distributions change, and a pair that is missing is missing in both tables."""
    return lambda pairs: changed(*names)(pairs) & ((pairs.first == 0) == (pairs.second == 0)).all(axis=(1, 2))


def only_at(names: tuple[str, ...], name: str, *place: Any, sign: int = 0) -> Wanted:
    """These distributions change, and `name` at this place alone: up, down or (0) either way."""

    def wanted(pairs: Pairs) -> np.ndarray:
        difference = pairs.differences[name]
        over = np.abs(difference) > LIMIT
        here = (difference * (sign or np.sign(difference)) > LIMIT)[(slice(None), *place)]
        counts = [each.reshape(len(over), -1).sum(axis=1) for each in (over, here)]
        return subset(*names)(pairs) & (counts[0] == counts[1])

    return wanted


def nearly(name: str) -> Wanted:
    """Nothing changes, but this distribution is close to it: the differences together exceed the limit."""

    def wanted(pairs: Pairs) -> np.ndarray:
        together = np.sqrt((pairs.differences[name].reshape(len(pairs.first), -1) ** 2).sum(axis=1))
        return subset()(pairs) & (pairs.gaps[name] > SAME - 0.01) & ((together > LIMIT + 0.003) | ("|" not in name))

    return wanted


def spread(*names: str) -> Wanted:
    """Exactly these distributions change, and no share of a pair (x, y) among all does."""

    def wanted(pairs: Pairs) -> np.ndarray:
        shares = [table / table.sum(axis=(1, 2), keepdims=True) for table in (pairs.first, pairs.second)]
        return subset(*names)(pairs) & (np.abs(shares[1] - shares[0]).max(axis=(1, 2)) < LIMIT - 0.005)

    return wanted


def few(*names: str) -> Wanted:
    """Exactly these distributions change, by so few examples that one more of each pair would hide it."""

    def wanted(pairs: Pairs) -> np.ndarray:
        with_one_more = Pairs(pairs.first + 1, pairs.second + 1)
        return subset(*names)(pairs) & changed()(with_one_more)

    return wanted


def lacking(x: int, y: int, where: str) -> Wanted:
    """Nothing changes, and a pair occurs in neither table, or not in the second."""
    return lambda pairs: (
        changed()(pairs) & (pairs.second[:, x, y] == 0) & ((pairs.first[:, x, y] == 0) == (where == "anywhere"))
    )


def from_zero(pairs: Pairs) -> np.ndarray:
    """P(x | y) alone changes, by the share of a pair that is missing on one side alone."""
    over = np.abs(pairs.differences["x|y"]) > LIMIT
    missing = (pairs.first == 0) != (pairs.second == 0)
    return np.asarray(changed("x|y")(pairs) & (over <= missing).all(axis=(1, 2)))


def tables(rng: np.random.Generator, n: int) -> Tables:
    """Shares of all kinds: common and rare inputs and labels, labels that an input decides."""
    share_of_ones = rng.beta(0.6, 0.6, (n, 3)).round(2)
    share_of_ones *= np.where(rng.random((n, 1)) < 0.4, rng.uniform(0.1, 0.4, (n, 1)), 1)
    share_of_ones = np.where(rng.random((n, 1)) < 0.5, share_of_ones, 1 - share_of_ones)
    return np.stack([1 - share_of_ones, share_of_ones], axis=-1) * rng.dirichlet([3, 3, 3], n)[..., None]


def moved(rng: np.random.Generator, first: Tables) -> Tables:
    """Each table with another P(x), P(y), P(y | x) or P(x | y), the last two for some of their conditions."""
    n, first = len(first), first / first.sum(axis=(1, 2), keepdims=True)
    target, far = tables(rng, n), rng.uniform(0, 1, (n, 1, 1)) ** 2
    marginals, conditionals = [], []
    for axis, shape in ((2, (3, 1)), (1, (1, 2))):
        (old, new) = (table.sum(axis=axis, keepdims=True).clip(1e-9) for table in (first, target))
        distance = far * rng.integers(2, size=(n, *shape))
        marginals.append(first / old * (old + far * (new - old)))
        conditionals.append((first / old + distance * (target / new - first / old)) * old)
    return np.choose(rng.choice([0, 1, 2, 3, 3, 3], size=(n, 1, 1)), marginals + conditionals)


def whole(shares: Tables, count: int) -> Tables:
    """The shares as counts."""
    counts = np.round(shares * count).astype(int).reshape(-1, 6)
    counts[np.arange(len(counts)), counts.argmax(axis=1)] += count - counts.sum(axis=1)
    return counts.reshape(-1, 3, 2)


def pool(rng: np.random.Generator, first: Tables, count: int) -> Pairs:
    """Each first table with a second one of so many examples that differs from it somehow."""
    second = moved(rng, first)
    second = np.where(rng.random((len(first), 1, 1)) < 0.4, moved(rng, second), second)
    second[(second < 0.04) & (rng.random(second.shape) < 0.1)] = 0  # pairs that no longer occur
    return Pairs(first, whole(second, count)).clear()


@dataclass(frozen=True)
class Source:
    """Tables of one size: pools that serve all plans of a set, and are drawn again for a plan that they lack."""

    rng: np.random.Generator
    half: int  # examples in a half of training
    later: int  # in validation
    pools: dict[int, Pairs] = field(default_factory=dict)

    def find(self, wanted: Wanted, count: int) -> tuple[Tables, Tables]:
        """Half of training, and `count` examples beside it."""
        while True:
            if count not in self.pools:
                self.pools[count] = pool(self.rng, whole(tables(self.rng, POOL), self.half), count)
            pairs = self.pools[count]
            suited = np.flatnonzero(wanted(pairs))
            if len(suited):
                row = self.rng.choice(suited)
                return pairs.first[row], pairs.second[row]
            del self.pools[count]

    def beside(self, train: Tables, wanted: Wanted) -> Tables:
        """Validation beside this training."""
        while True:
            pairs = pool(self.rng, np.repeat(train[None], POOL // 50, axis=0), self.later)
            suited = np.flatnonzero(wanted(pairs))
            if len(suited):
                return pairs.second[suited[0]]


def sources(rng: np.random.Generator) -> dict[bool, Source]:
    """For cases of six examples and for all others."""
    three = Source(rng, 3, 3 * int(rng.integers(2, 6)))
    return {True: three, False: Source(rng, int(rng.integers(100, 170)), int(rng.integers(180, 400)))}


def rows_of(table: Tables) -> np.ndarray:
    """The pairs (x, y) of a table, sorted, [n, 2]."""
    return np.repeat(list(product(range(3), range(2))), table.reshape(-1), axis=0)


def from_day_zero(case: Case) -> Case:
    """The same case with shorter numbers for its times."""
    start = case.inputs["t_train"].min()
    return replace(case, inputs={**case.inputs, **{name: case.inputs[name] - start for name in ("t_train", "t_val")}})
