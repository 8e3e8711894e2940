"""Errors in buckets: how many, what fixing them can bring, and what to try."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._common.palette import BLUE, VERMILION
from .._common.plotting import figure_and_axes
from .interventions import INTERVENTIONS, OTHER
from .metrics import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Bucket:
    """A kind of error.

    Attributes:
        name: of the flag.
        errors: errors that have it.
        share: of all errors; an error with two flags counts for both.
        only: errors that have no other flag.
        ceiling: accuracy if all its errors were fixed.
        gain: accuracy won if its examples were as often right as those without any flag; NaN when only errors were
            labelled. Where flags overlap, their effects on the error rate are taken to add up (least squares).
        intervention: what to try.

    """

    name: str
    errors: int
    share: float
    only: int
    ceiling: float
    gain: float
    intervention: str


@dataclass(frozen=True)
class Buckets:
    """All buckets, the most promising first: by gain, or by errors where no gain is known.

    Attributes:
        rows: the buckets; errors without any flag are none of them.
        examples: how many were evaluated.
        cumulative: share of the errors that are in this bucket or in one before it, each counted once.
        unassigned: errors without any flag.
        overlapping: errors with several.

    """

    rows: tuple[Bucket, ...]
    examples: int
    cumulative: tuple[float, ...]
    unassigned: int
    overlapping: int

    def as_rows(self) -> list[dict[str, Any]]:
        """A dict for each bucket, for a table."""
        return [asdict(row) for row in self.rows]

    def __str__(self) -> str:
        lines = [f"{'bucket':24} errors  share  ceiling    gain  intervention"]
        for b in self.rows:
            lines.append(f"{b.name:24} {b.errors:6} {b.share:6.1%} {b.ceiling:8.1%} {b.gain:+7.1%}  {b.intervention}")
        lines.append(f"{'(no bucket)':24} {self.unassigned:6}")
        return "\n".join([*lines, f"{self.overlapping} error(s) are in several buckets: shares and ceilings overlap."])

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw a Pareto chart: errors in each bucket, and the share of errors in it or before it (right axis)."""
        figure, ax = figure_and_axes(ax)
        names = [row.name.replace(" ", "\n") + f"\n{row.share:.0%}" for row in self.rows]
        ax.bar(names, [row.errors for row in self.rows], color=BLUE)
        right = ax.twinx()
        right.plot(names, [100 * share for share in self.cumulative], "s--", color=VERMILION)
        right.set_ylim(0, 105)
        ax.set_xlabel("bucket, with its share of all errors")
        ax.set_ylabel("errors (examples)")
        right.set_ylabel("errors so far, each once (%, dashed)")
        return figure


def bucket_errors(
    wrong: Array,
    flags: Mapping[str, Array] | Callable[[int], Iterable[str]],
    *,
    interventions: Mapping[str, str] = {},
) -> Buckets:
    """Count errors by kind and say what fixing each kind can bring.

    Source: lecture part 5, from error bucket to intervention.

    Args:
        wrong: for each example [N], whether it is an error.
        flags: name -> for each example [N] whether it has the flag, errors or not; or a function that gives the names
            for the index of an error, such as a person's labels.
        interventions: name -> what to try, beside those of `INTERVENTIONS` or in their stead.

    Raises:
        ValueError: no errors, no flags, another length, or what is neither true nor false.

    """
    errors = _booleans("wrong", wrong)
    if not errors.any():
        raise ValueError(f"none of {len(errors)} examples is an error: there is nothing to sort into buckets.")
    columns: dict[str, Any]
    if callable(flags):
        names_of = {i: set(flags(i)) for i in np.flatnonzero(errors).tolist()}
        kinds = sorted(set().union(*names_of.values()))
        columns = {name: [name in names_of.get(i, ()) for i in range(len(errors))] for name in kinds}
    else:
        columns = {name: _booleans(name, flag, len(errors)) for name, flag in flags.items()}
    if not columns:
        raise ValueError("there are no flags; name one kind of error or more.")
    names, table = list(columns), np.column_stack(list(columns.values()))
    # The error rate as a sum: that of examples without any flag, and what each flag adds.
    design = np.column_stack([np.ones(len(errors)), table])
    gains = np.linalg.lstsq(design, errors.astype(float))[0][1:] * table.mean(axis=0)
    if callable(flags):
        gains = np.full(len(names), np.nan)  # nobody looked at the examples that are right
    flagged = table[errors]
    counts, several = flagged.sum(axis=0), flagged.sum(axis=1)
    # The last key decides first; where no gain is known, all are NaN and the counts decide.
    order = np.lexsort((-counts, -gains))
    texts = {**INTERVENTIONS, **(interventions or {})}
    only = flagged[several == 1].sum(axis=0)
    ceilings = 1 - (len(flagged) - counts) / len(errors)
    values = np.array([counts, counts / len(flagged), only, ceilings, gains]).T[order].tolist()
    rows = tuple(
        Bucket(names[i], int(errors), share, int(alone), ceiling, gain, texts.get(names[i], OTHER))
        for i, (errors, share, alone, ceiling, gain) in zip(order, values, strict=True)
    )
    cumulative = np.maximum.accumulate(flagged[:, order], axis=1).mean(axis=0)
    return Buckets(rows, len(errors), tuple(cumulative.tolist()), int((several == 0).sum()), int((several > 1).sum()))


def _booleans(name: str, values: Array, length: int | None = None) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1 or not len(array) or length not in (None, len(array)) or not np.isin(array, (0, 1)).all():
        expected = f"true or false for each of {length or 'the'} examples"
        raise ValueError(f"{name!r} has shape {list(array.shape)} and dtype {array.dtype}; expected {expected}.")
    return array.astype(bool)
