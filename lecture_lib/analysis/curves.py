"""Training curves -> diagnosis -> action, from the history of a run alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from ..training._run.history import Epoch, History
from ._curve_texts import PATTERNS

# Shares of the loss that the run started with, unless said otherwise. Chosen on other runs than those that
# tests/benchmarks/curves.py reports on, about midway between the patterns that each one parts.
EXPLODED = 4.0  # the last two training losses are above this many times the start
SWING = 0.033  # mean reversal of the validation loss, also in the later half, as a share of the typical loss
FLAT = 0.06  # neither loss ever fell by more
PERFECT = 0.025  # the validation loss ends below
BELOW = 0.89  # validation loss / training loss, at the same moment
LOST = 0.075  # of validation's improvement, given back by the end, beyond what it turns back anyway
GAP, TIMES = 0.07, 1.4  # the validation loss ends above the training loss by more, and above so many times it
HIGH = 0.41  # the training loss ends above
SETTLED = 0.11  # the last quarter of the epochs brought less than this share of the improvement

FEWEST = 5  # epochs that a pattern can be seen in


@dataclass(frozen=True)
class Diagnosis:
    """What a run's curves show.

    Attributes:
        pattern: a key of `PATTERNS`.
        evidence: the numbers that decided.
        meaning: what the pattern stands for.
        actions: what to do next, the cheapest first.

    """

    pattern: str
    evidence: str
    meaning: str
    actions: tuple[str, ...]

    def __str__(self) -> str:
        actions = [f"- {action}" for action in self.actions]
        return "\n".join([f"{self.pattern}: {self.evidence}", self.meaning, *actions])


@dataclass(frozen=True)
class Measures:
    """A history in numbers without a unit, each explained beside the limit that it is held against."""

    start: float
    train_last: float
    train_end: float
    val_end: float
    swing: float
    fall: float
    ratio: float
    lost: float
    remaining: float
    perfect_metric: bool


def diagnose(run: History | BaseException | Sequence[Epoch] | Sequence[Mapping[str, Any]]) -> Diagnosis:
    """Name the pattern of a run's training curves, with what it means and what to do.

    The losses are compared with the loss that the run started with, so their unit does not matter; their best possible
    value is taken to be 0. What the curves cannot tell apart is said in `meaning`: an easy task and leakage, noisy
    labels and a model that is too small.
    Source: lecture part 3, curves as a language.

    Args:
        run: what `train` returned; or the exception that ended it; or its rows, each with train_loss, val_loss and
            maybe val_metric, skipped and steps.

    Returns:
        The first pattern that fits, in the order of `PATTERNS`.

    Raises:
        ValueError: fewer than 5 epochs, or a loss below 0.

    """
    rows = _rows(run)
    why = f"the run ended in epoch {len(rows) + 1}: {run}" if isinstance(run, FloatingPointError) else _not_finite(rows)
    if why:
        return Diagnosis("exploding", why, *PATTERNS["exploding"])
    pattern, evidence = _judge(measure(rows))
    return Diagnosis(pattern, evidence, *PATTERNS[pattern])


def measure(rows: Sequence[Mapping[str, Any]]) -> Measures:
    """The rows of a run in numbers without a unit; errors as in `diagnose`."""
    train, val = ([float(row[name]) for row in rows] for name in ("train_loss", "val_loss"))
    if len(rows) < FEWEST:
        raise ValueError(f"{len(rows)} epoch(s); a pattern needs {FEWEST} or more. Train on.")
    if min(train + val) < 0:
        raise ValueError(f"a loss is {min(train + val):g}; the rules want losses whose best value is 0.")
    # The first epoch's mean is taken while the loss falls: as far above its end as above its middle.
    # `or 1.0`: losses that are all 0 have no scale.
    start = max(train[0], val[0], 2 * train[0] - val[0]) or 1.0
    last = max(2, len(rows) // 4)
    train_end, val_end = median(train[-last:]), median(val[-last:])
    smooth = [median(val[max(0, i - 1) : i + 2]) for i in range(len(val))]
    # Each epoch's training loss is a mean over it; validation comes at its end, midway to the next epoch's mean.
    middle = [(a + b) / 2 for a, b in itertools.pairwise(train)]
    half, turns = len(middle) // 2, _reversals(val)
    # A run that went astray once and settled does not oscillate.
    lasting = min(turns, _reversals(val[len(val) // 2 - 1 :]))
    metrics = [float(row.get("val_metric", math.nan)) for row in rows[-last:]]
    return Measures(
        start=start,
        train_last=min(train[-2:]) / start,
        train_end=train_end / start,
        val_end=val_end / start,
        swing=lasting / max(median(val), median(train), 0.1 * start),
        fall=max(1 - min(train) / (train[0] or 1.0), 1 - min(val) / (val[0] or 1.0)),
        ratio=median(b / max(a, 1e-9 * start) for a, b in zip(middle[half:], val[half:-1], strict=True)),
        lost=(val_end - min(smooth) - 2 * turns) / max(start - min(smooth), 0.05 * start),
        remaining=(median(train[-2 * last : -last]) - train_end) / max(start - train_end, 0.05 * start),
        perfect_metric=median(metrics) == 1.0,
    )


def _judge(m: Measures) -> tuple[str, str]:
    """The pattern and its evidence; an earlier rule is not asked again by the later ones."""
    ends = f"from {m.start:.3g}, training ends at {m.train_end:.0%} and validation at {m.val_end:.0%} of it"
    if m.train_last > EXPLODED:
        return "exploding", f"{ends}; its last two epochs lie above {m.train_last:.1f} times its start"
    if m.swing > SWING:
        return "oscillating", f"from epoch to epoch validation turns back by {m.swing:.0%} of the loss"
    if m.fall < FLAT:
        return "flat", f"at best a loss fell by {max(m.fall, 0):.1%}"
    if m.val_end < PERFECT or (m.perfect_metric and m.ratio < BELOW):
        perfect = ", with a perfect metric" if m.perfect_metric else ""
        return "leakage-like", f"{ends}{perfect}"
    if m.ratio < BELOW:
        return "validation below training", f"validation loss is {m.ratio:.0%} of the training loss"
    if m.lost > LOST:
        return "improves then worsens", f"validation gave back {m.lost:.0%} of its improvement; {ends}"
    if m.val_end > max(m.train_end + GAP, TIMES * m.train_end):
        return "overfit", ends
    if m.train_end > HIGH and m.remaining < SETTLED:
        return "underfit", f"{ends}; the last quarter brought {max(m.remaining, 0):.0%} of the improvement"
    return "healthy", ends


def _reversals(losses: Sequence[float]) -> float:
    """How far a curve turns back, the mean over its inner points: 0 where it goes on in the same direction.

    A single turn, such as that of a curve that improves and then worsens, counts by its smaller side only.
    """
    steps = [b - a for a, b in itertools.pairwise(losses)]
    turns = [min(abs(a), abs(b)) if a * b < 0 else 0.0 for a, b in itertools.pairwise(steps)]
    return sum(turns) / len(turns)


def _rows(run: Any) -> list[Mapping[str, Any]]:
    history = getattr(run, "history", []) if isinstance(run, BaseException) else run
    rows = history.rows if isinstance(history, History) else history
    return [asdict(row) if isinstance(row, Epoch) else row for row in rows]


def _not_finite(rows: Sequence[Mapping[str, Any]]) -> str:
    """What in the rows is not finite, or had to be skipped because it was not; empty when nothing is."""
    for number, row in enumerate(rows, 1):
        for name in ("train_loss", "val_loss"):
            if not math.isfinite(row[name]):
                return f"{name} is {row[name]} in epoch {number}"
    skipped, steps = (rows[-1].get(name, 0) for name in ("skipped", "steps")) if rows else (0, 0)
    # A few at the start are part of FP16's search for a scale.
    return f"{skipped} of {steps} steps were skipped, for something was not finite" if skipped > 0.05 * steps else ""
