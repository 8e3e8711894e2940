"""Splits: which examples are trained on, which are held out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor


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
    classes = _as_classes(labels)
    _check_fractions(fractions)
    try:
        from sklearn.model_selection import train_test_split
    except ImportError:
        raise ImportError("stratified_split needs scikit-learn. Run: pip install scikit-learn") from None
    _check_class_sizes(classes, fractions)

    # Rounding the running sum, not each share, makes the sizes add up to N.
    ends = [round(share * len(classes)) for share in accumulate(fractions)]
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


def _as_classes(labels: Tensor | np.ndarray | Sequence[int]) -> np.ndarray:
    classes = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if classes.ndim != 1 or classes.dtype.kind not in "iub" or len(classes) == 0:
        raise ValueError(
            f"labels have shape {list(classes.shape)} and dtype {classes.dtype}; a stratified split wants one "
            "class index for each example, integers of shape [N] with N above 0."
        )
    return classes


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
