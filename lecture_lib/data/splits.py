"""Splits: which examples are trained on, which are held out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ._columns import Column, as_classes, as_groups, as_times, same_length, several_classes


def stratified_split(
    labels: Tensor | np.ndarray | Sequence[int], fractions: Sequence[float], *, seed: int
) -> tuple[Tensor, ...]:
    """Split examples at random so that every part has the class balance of the whole.

    Source: lecture part 3, validation; the drawing is scikit-learn's train_test_split.

    Args:
        labels: class of each example, integers [N], as a tensor, an array or a list.
        fractions: the share of each part, two or more, each above 0, sum 1.
        seed: the same seed gives the same split; the ambient random streams are neither read nor moved.

    Returns:
        One int64 index tensor for each part, in random order; together they hold every index once.

    Raises:
        TypeError: fractions is a single number.
        ValueError: labels are no class indices, fractions do not add up, or a class is too small to be in every part.
        ImportError: scikit-learn is not installed.

    """
    classes = as_classes(labels)
    _check_fractions(fractions)
    several_classes(classes)
    try:
        from sklearn.model_selection import train_test_split
    except ImportError:
        raise ImportError("stratified_split needs scikit-learn. Run: pip install scikit-learn") from None
    _check_class_sizes(classes, fractions)

    ends = _ends(fractions, len(classes))
    sizes = [end - start for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    parts, rest = [], np.arange(len(classes))
    for size in sizes[:-1]:
        part, rest = train_test_split(
            rest, train_size=size, test_size=len(rest) - size, stratify=classes[rest], random_state=seed
        )
        parts.append(part)
    parts.append(rest)
    _check_every_class_in_every_part(classes, parts)
    return tuple(torch.from_numpy(part).to(torch.int64) for part in parts)


def grouped_split(
    groups: Column, fractions: Sequence[float], *, labels: Column | None = None, seed: int
) -> tuple[Tensor, ...]:
    """Split whole groups (patients, videos, documents, users): none is in two parts.

    Largest first, each group goes to the part that then comes closest to its share of the examples, and of each class
    when labels are given. Groups of equal size are drawn at random. Equal fractions make folds.

    Source: lecture part 3, validation; the rule of scikit-learn's StratifiedGroupKFold, for any fractions.

    Args:
        groups: what names the group of each example, numbers or texts [N].
        fractions: the share of each part in the examples, two or more, each above 0, sum 1.
        labels: class of each example, integers [N].
        seed: the same seed gives the same split; the ambient random streams are neither read nor moved.

    Returns:
        One int64 index tensor for each part, in rising order; none is empty, together they hold every index once.

    Raises:
        TypeError: fractions is a single number.
        ValueError: lengths differ, a group is missing, there are fewer groups than parts or one class only, or
            fractions do not add up.

    """
    names = as_groups(groups)
    _check_fractions(fractions)
    classes = np.zeros(len(names), dtype=np.int64) if labels is None else as_classes(labels)
    same_length(classes, len(names), "labels")
    if labels is not None:
        several_classes(classes)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    if len(numbers) < len(fractions):
        raise ValueError(
            f"{len(numbers)} group(s) for {len(fractions)} parts; each needs one of its own. Make fewer parts."
        )
    group = np.array([numbers[name] for name in names])
    kinds = np.unique(classes, return_inverse=True)[1]
    counts = np.zeros((len(numbers), kinds.max() + 1))
    np.add.at(counts, (group, kinds), 1)
    # In shares of each class: a rare one counts as much as a common one.
    shares = counts / counts.sum(axis=0)
    missing = np.outer(fractions, np.ones(shares.shape[1]))
    shuffled = np.random.default_rng(seed).permutation(len(shares))
    order = shuffled[np.argsort(-counts.sum(axis=1)[shuffled], kind="stable")]
    part_of, empty = np.empty(len(shares), dtype=np.int64), set(range(len(fractions)))
    for place, number in enumerate(order):
        # The last groups are kept for the parts that have none.
        allowed = empty if len(order) - place == len(empty) else range(len(fractions))
        # How much closer |missing|² comes to 0: |m|² - |m - s|² = s · (2m - s).
        part = max(allowed, key=lambda part: shares[number] @ (2 * missing[part] - shares[number]))
        part_of[number] = part
        missing[part] -= shares[number]
        empty.discard(part)
    return tuple(torch.from_numpy(np.flatnonzero(part_of[group] == part)) for part in range(len(fractions)))


def chronological_split(
    times: Column, fractions: Sequence[float], *, gap: float | timedelta | np.timedelta64 | None = None
) -> tuple[Tensor, ...]:
    """Split by time: every example of a part is older than all of the next part.

    Equal time stamps stay together, so sizes can differ from the fractions.

    Source: lecture part 3, validation.

    Args:
        times: when each example was taken, numbers or dates [N].
        fractions: the share of each part in the examples, oldest first, two or more, each above 0, sum 1.
        gap: what lies less than this before the next part begins is left out of all parts, for labels or features
            that look ahead; in the units of times, or a timedelta for dates.

    Returns:
        One int64 index tensor for each part, oldest example first.

    Raises:
        TypeError: fractions is a single number.
        ValueError: a time is missing or not finite, fractions do not add up, gap is no distance or a part is empty.

    """
    stamps = as_times(times)
    _check_fractions(fractions)
    order = np.argsort(stamps, kind="stable")
    ordered = stamps[order]
    ahead: Any = gap
    # `ahead - ahead` is 0 in the gap's own unit, and the comparison is false for NaN as well.
    if gap is not None and (isinstance(gap, int | float) == (stamps.dtype.kind == "M") or not ahead >= ahead - ahead):
        raise ValueError(f"gap is {gap!r}; wanted is a distance of 0 or more: a timedelta for dates, else a number.")
    changes = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1
    cuts = _ends(fractions, len(order))[:-1]
    # A cut among equal times moves to the nearest place where time goes on.
    inner = [int(changes[np.abs(changes - cut).argmin()]) for cut in cuts] if len(changes) else []
    starts, ends = [0, *inner], [*inner, len(order)]
    parts = [
        order[start:end][
            slice(None) if gap is None or end == len(order) else ordered[end] - ordered[start:end] >= ahead
        ]
        for start, end in zip(starts, ends, strict=True)
    ]
    if len(parts) < len(fractions) or not all(map(len, parts)):
        raise ValueError(
            f"a part is empty: {len(changes) + 1} different times, fractions {tuple(fractions)} and gap {gap} leave "
            "it no example. Make it larger or the gap smaller; equal times stay together."
        )
    return tuple(map(torch.from_numpy, parts))


def _ends(fractions: Sequence[float], count: int) -> list[int]:
    # Rounding the running sum, not each share, makes the sizes add up to the count.
    return [round(share * count) for share in accumulate(fractions)]


def _check_fractions(fractions: Sequence[float]) -> None:
    if not isinstance(fractions, Sequence | np.ndarray):
        raise TypeError(
            f"fractions is {fractions!r}, of type {type(fractions).__name__}; name the share of every part, for "
            "example (0.8, 0.2)."
        )
    if len(fractions) < 2:
        raise ValueError(f"fractions {tuple(fractions)} name {len(fractions)} part(s); a split has 2 or more.")
    # `not 0 < f` also refuses NaN, for which every comparison is false.
    bad = [fraction for fraction in fractions if not 0 < fraction < 1]
    if bad:
        raise ValueError(f"fractions {tuple(fractions)} hold {bad[0]}; each part's share lies between 0 and 1.")
    if not math.isclose(sum(fractions), 1.0, abs_tol=1e-9):
        raise ValueError(
            f"fractions {tuple(fractions)} sum to {sum(fractions):g}, not 1. Every example belongs to one "
            "part: name the rest as a part of its own."
        )


def _too_small(classes: np.ndarray, reason: str) -> str:
    names, counts = np.unique(classes, return_counts=True)
    rarest = int(counts.argmin())
    return (
        f"class {names[rarest]} has {counts[rarest]} example(s): {reason}. Collect more of it, merge or "
        "leave out the class, or make the smallest part larger."
    )


def _check_class_sizes(classes: np.ndarray, fractions: Sequence[float]) -> None:
    """Each part must expect one example or more of each class."""
    # The small subtraction keeps 5 x 0.2 from needing a sixth example through rounding.
    needed = math.ceil(1 / min(fractions) - 1e-9)
    if np.unique(classes, return_counts=True)[1].min() < needed:
        raise ValueError(_too_small(classes, f"a part of {min(fractions):g} needs {needed} of each class"))


def _check_every_class_in_every_part(classes: np.ndarray, parts: Sequence[np.ndarray]) -> None:
    """With counts near the limit, scikit-learn's rounding can still leave a class out of a part."""
    for number, part in enumerate(parts):
        missing = np.setdiff1d(classes, classes[part])
        if len(missing):
            raise ValueError(_too_small(classes, f"nothing of class {missing[0]} fell into part {number}"))
