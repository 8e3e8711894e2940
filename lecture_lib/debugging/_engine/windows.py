"""Windows that are cut from a longer series and overlap."""

from __future__ import annotations

from collections import Counter

from torch import Tensor

from .inspection import fingerprints

LONG = 8  # steps of a window
DISTINCT = 6  # values in what two windows share, so that it is no accident
ACCIDENTS = 10  # times as often as by accident
LARGEST = 3  # axes; pictures move for other reasons


def continued(windows: Tensor, by: Tensor) -> float:
    """The share of windows that another window continues: it begins with the numbers with which they end.

    windows: [N, ...] and by: [M, ...] of the same shape, any axis being time. Up to half of a window may lie between
    their starts. 0 where rows are no windows.
    """
    if windows.shape[1:] != by.shape[1:] or windows.ndim > LARGEST or not len(windows) or not len(by):
        return 0.0
    return max((_along(windows, by, axis) for axis in range(1, windows.ndim)), default=0.0)


def _along(windows: Tensor, by: Tensor, axis: int) -> float:
    length = windows.shape[axis]
    if length < LONG:
        return 0.0
    # Most rows are no windows: whether a few numbers agree at all is cheap to ask.
    width = min(LONG, length - length // 2)
    openings = set(fingerprints(by.narrow(axis, 0, width)))
    starts = [s for s in range(1, length // 2 + 1) if openings & set(fingerprints(windows.narrow(axis, s, width)))]
    if not starts:
        return 0.0
    lively = [len(set(row.flatten().tolist())) >= 2 * DISTINCT for row in windows]
    continued_by = [False] * len(windows)
    by = by.unique(dim=0)
    for start in starts:
        beginnings = Counter(fingerprints(by.narrow(axis, 0, length - start)))
        ends = fingerprints(windows.narrow(axis, start, length - start))
        # Sentences of a small language begin alike, and so often a window is continued by accident.
        accidents = sum(count for count in beginnings.values() if count > 1) / len(by)
        if sum(end in beginnings for end in ends) > ACCIDENTS * accidents * len(ends):
            continued_by = [old or new in beginnings for old, new in zip(continued_by, ends, strict=True)]
    return sum(a and b for a, b in zip(continued_by, lively, strict=True)) / len(windows)
