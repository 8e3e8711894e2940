"""Leakage: what validation shares with training and would not share with tomorrow's data."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .._common.palette import BLUE, VERMILION
from .._common.plotting import figure_and_axes
from ._coincidence import Coincidences, coincidences
from ._columns import Column, as_classes, as_groups, as_rows, as_times, both_sides, same_width
from ._nearest import GAP, NearCopies, near_copies

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DO = {
    "exact duplicates": "Remove the copies from training or keep each content on one side; then measure again.",
    "near duplicates": (
        "Look at the pairs. If they are frames, crops or edits of one source, name the source of every example and "
        "use grouped_split."
    ),
    "shared groups": "Use grouped_split with this column: a patient, video, document or user belongs to one side.",
    "time order": "Use chronological_split: train on the past, validate on what came after, with a gap if needed.",
}


@dataclass(frozen=True)
class Leak:
    """One way in which validation has been seen.

    Attributes:
        kind: 'exact duplicates', 'near duplicates', 'shared groups' or 'time order'.
        evidence: what was counted, in words.
        share: of the validation examples, 0..1.
        p_value: of a chance this large in an honest random split; None where the evidence is a fact.
        train: numbers of training examples concerned, int64; for duplicates position i belongs to validation[i].
        validation: numbers of validation examples concerned, int64.
        do: what to do about it.

    """

    kind: str
    evidence: str
    share: float
    p_value: float | None
    train: np.ndarray = field(repr=False)
    validation: np.ndarray = field(repr=False)
    do: str


@dataclass(frozen=True)
class LeakageReport:
    """What was looked for, what was found, and the distances behind it.

    Attributes:
        leaks: one for each kind that was found, facts first.
        to_train: distance of each validation example that is no exact copy to its nearest training example.
        within_train: distance of each training example to its nearest other one, contents counted once.
        remarks: what was found and is no leak, in words.

    """

    leaks: tuple[Leak, ...]
    to_train: np.ndarray = field(repr=False)
    within_train: np.ndarray = field(repr=False)
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        findings = [f"{leak.kind}: {leak.evidence}\n  {leak.do}" for leak in self.leaks]
        return "\n".join([*(findings or ["no leak found"]), *self.remarks])

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw how far validation and training examples are from their nearest training example.

        Args:
            ax: where; default: a new figure.

        Returns:
            The figure.

        """
        figure, ax = figure_and_axes(ax)
        if len(self.within_train):
            ax.ecdf(self.within_train, color=BLUE, label=f"training ({len(self.within_train)})")
        if len(self.to_train):
            ax.ecdf(self.to_train, color=VERMILION, linestyle="--", label=f"validation ({len(self.to_train)})")
        ax.set_xlabel("distance to the nearest training example (Euclidean, units of the inputs)")
        ax.set_ylabel("share of examples at most this far")
        ax.set_title(", ".join(leak.kind for leak in self.leaks) or "no leak found", fontsize="medium")
        ax.legend(loc="lower right", frameon=False)
        return figure


def leakage_report(
    train: Column,
    validation: Column,
    *,
    groups: tuple[Column, Column] | None = None,
    times: tuple[Column, Column] | None = None,
    labels: tuple[Column, Column] | None = None,
    seed: int = 0,
    alpha: float = 0.002,
) -> LeakageReport:
    """Look for exact and near duplicates, shared groups and validation that is older than training.

    Equal examples are exact duplicates unless chance explains them, as it does where inputs are a few small counts or
    categories (coincidence.py says how that is judged); the evidence says how many chance would give.
    Near duplicates are pairs much closer than the data around them (nearest.py says how close); they are reported
    when more of validation has one in training than an honest random split explains. What it cannot see: copies that
    are moved, cropped or recoloured beyond the distance of ordinary neighbours. For those give groups, or inputs
    that are features of a network. Scale features of different units first.

    Source: lecture part 3, validation.

    Args:
        train: training inputs, numbers [N, ...], finite.
        validation: validation inputs, [M, ...].
        groups: (of training, of validation), who or what each example comes from; a group on both sides is a leak.
        times: (of training, of validation), numbers or dates; give them when the model is to predict what comes
            later: validation that does not lie after all of training is then a leak.
        labels: (of training, of validation), class indices; duplicates whose labels disagree are then counted.
        seed: of the permutations.
        alpha: the error rate of the tests for exact and for near duplicates, each together.

    Returns:
        The report; without leaks its `leaks` are empty.

    Raises:
        ValueError: shapes or lengths differ, something is missing or not finite, or an argument is not a column.

    """
    from sklearn.neighbors import NearestNeighbors

    train_rows, validation_rows = as_rows(train, "training inputs"), as_rows(validation, "validation inputs")
    same_width(train_rows, validation_rows)
    sizes = len(train_rows), len(validation_rows)
    kinds = None if labels is None else both_sides(labels, sizes, "labels", as_classes)
    sources = None if groups is None else both_sides(groups, sizes, "groups", as_groups)
    stamps = None if times is None else both_sides(times, sizes, "times", as_times)
    # Backwards, so that of equal rows the first one's number stays.
    first = {_digest(row): number for number, row in reversed(list(enumerate(train_rows)))}
    copy_of = np.array([first.get(_digest(row), -1) for row in validation_rows])
    chance = coincidences(train_rows, validation_rows, _contents(train_rows, validation_rows), seed=seed)
    copies, fresh, unique = np.flatnonzero(copy_of >= 0), np.flatnonzero(copy_of < 0), np.sort(list(first.values()))
    suspicions, remarks = [], []
    if chance.p_value <= alpha:
        suspicions.append(_copies("exact duplicates", copy_of[copies], copies, len(validation_rows), kinds, chance))
    elif chance.duplicates:
        remarks.append(
            f"{chance.duplicates} of {len(validation_rows)} validation examples are equal to a training example; "
            f"chance would give {chance.by_chance:.1f} ({chance.why}), so this is no sign of copies."
        )

    near = near_copies(train_rows[unique], validation_rows[fresh], seed=seed)
    if near.p_value <= alpha:
        suspicions.append(
            _copies("near duplicates", unique[near.train], fresh[near.validation], len(validation_rows), kinds, near)
        )
    if sources is not None:
        suspicions.append(_shared_groups(*sources))
    if stamps is not None:
        suspicions.append(_time_order(*stamps))
    search = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(train_rows[unique])
    to_train = search.kneighbors(validation_rows[fresh])[0][:, 0] if len(fresh) else np.zeros(0)
    # Without arguments kneighbors passes over each example itself.
    within_train = search.kneighbors()[0][:, 0] if len(unique) > 1 else np.zeros(0)
    leaks = tuple(leak for leak in suspicions if len(leak.validation))
    return LeakageReport(leaks, to_train, within_train, tuple(remarks))


def _digest(row: np.ndarray) -> bytes:
    # Adding 0 turns -0.0, which equals 0.0, into it.
    return hashlib.sha256((row + 0.0).tobytes()).digest()


def _contents(train: np.ndarray, validation: np.ndarray) -> np.ndarray:
    """A number for each row, the same for equal ones."""
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(_digest(row), len(numbers)) for part in (train, validation) for row in part])


def _copies(
    kind: str,
    train: np.ndarray,
    validation: np.ndarray,
    count: int,
    labels: tuple[np.ndarray, np.ndarray] | None,
    chance: Coincidences | NearCopies,
) -> Leak:
    evidence = f"{len(validation)} of {count} validation examples have a copy in training"
    if isinstance(chance, NearCopies):
        evidence += (
            f", {GAP:g} times closer than what comes next, or more; random splits of the same examples have "
            f"{chance.by_chance:.1f} on average"
        )
    else:
        evidence += f"; chance would give {chance.by_chance:.1f} ({chance.why})"
    if labels is not None:
        evidence += f"; {np.sum(labels[0][train] != labels[1][validation])} of them with another label"
    # Where chance gives practically no equal examples, a copy is a fact and needs no p value.
    is_fact = isinstance(chance, Coincidences) and chance.by_chance < 0.05
    p_value = None if is_fact else chance.p_value
    return Leak(kind, evidence, len(validation) / count, p_value, train, validation, DO[kind])


def _shared_groups(train: list[Hashable], validation: list[Hashable]) -> Leak:
    shared = set(train) & set(validation)
    in_train, in_val = (np.flatnonzero([group in shared for group in side]) for side in (train, validation))
    examples = ", ".join(sorted(map(str, shared))[:3])
    evidence = f"{len(shared)} of {len(set(validation))} groups of validation are in training too, such as {examples}"
    share = len(in_val) / len(validation)
    return Leak("shared groups", evidence, share, None, in_train, in_val, DO["shared groups"])


def _time_order(train: np.ndarray, validation: np.ndarray) -> Leak:
    early, late = np.flatnonzero(validation <= train.max()), np.flatnonzero(train >= validation.min())
    evidence = (
        f"{len(early)} of {len(validation)} validation examples are not after all of training, which ends at "
        f"{train.max()}; validation begins at {validation.min()}"
    )
    return Leak("time order", evidence, len(early) / len(validation), None, late, early, DO["time order"])
