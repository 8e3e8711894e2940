"""Reading the finder's curve: rules on plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Curve = NDArray[np.floating[Any]]

# Share of the starting loss by which a curve must fall before its minimum means anything.
SMALLEST_FALL = 0.1
DEFAULT = "valley_floor"
# How far below the edge of divergence the default stays.
SAFETY = 7.0


def trend(learning_rates: Sequence[float] | Curve, losses: Sequence[float]) -> Curve:
    """The losses without their noise and without delay: a weighted mean over the decade on either side.

    A running average lags, by 9 steps with 0.9 of the past, and so moves every landmark to larger rates; this one looks
    both ways. The weight at a distance of d decades is (1 - d²)², 0 from a decade on: a table with a row for each
    decade stays as it is. A loss above the start, the mean of the first tenth of the sweep, counts as the start, and so
    does what lies outside of the sweep: how wildly a run diverges says nothing about where.

    Args:
        learning_rates: rising, above 0, [N].
        losses: the loss at each rate, finite, [N].

    Returns:
        The smooth loss, [N].

    """
    logarithms, values = np.log10(learning_rates), np.asarray(losses, dtype=float)
    start = _start(values)
    decades = logarithms[:, None] - logarithms
    weights = np.maximum(1 - decades * decades, 0)
    weights *= weights
    fallen = weights @ np.maximum(start - values, 0) / weights.sum(axis=1).max()
    return np.asarray(start - fallen)


def valley_floor(learning_rates: Curve, smooth: Curve) -> float:
    """A third of the way across the valley's bottom, on the log-rate axis, and well before the edge of divergence.

    The bottom is the stretch around the minimum where the loss is at most a fifth of its fall above it. Its two ends
    depend less on chance than the lowest point between them, and too small a rate costs less than one too large. The
    edge is where half of the fall is lost again, or the end of the sweep. In a sweep each rate has a step or two; held
    for a whole training, rates below the edge diverge too. So where the valley is narrow, the suggestion is a seventh
    of the edge.
    """
    left, right = bottom_of(learning_rates, smooth)
    logarithms, lowest = np.log10(learning_rates), int(np.argmin(smooth))
    _, edge = _around(logarithms, smooth, lowest, smooth[lowest] + 0.5 * (smooth[0] - smooth[lowest]))
    return float(min(10 ** (left + (right - left) / 3), 10**edge / SAFETY))


def bottom_of(learning_rates: Curve, smooth: Curve) -> tuple[float, float]:
    """The ends of the valley's bottom as log10 of the rate."""
    lowest = int(np.argmin(smooth))
    height = smooth[lowest] + 0.2 * (smooth[0] - smooth[lowest])
    return _around(np.log10(learning_rates), smooth, lowest, height)


def minimum_over_10(learning_rates: Curve, smooth: Curve) -> float:
    """One decade below the rate of the lowest loss, where the minimum itself is the edge of divergence.

    Source: lecture part 4 ("one order of magnitude before the minimum").
    """
    return float(learning_rates[int(np.argmin(smooth))]) / 10


def steepest(learning_rates: Curve, smooth: Curve) -> float:
    """The rate at which the loss falls fastest on the log-rate axis.

    The most negative central difference of loss against log10(rate), among inner points up to the minimum.
    Source: L. Smith (2015), arXiv:1506.01186; lecture part 4.
    """
    logarithms = np.log10(learning_rates)
    slopes = (smooth[2:] - smooth[:-2]) / (logarithms[2:] - logarithms[:-2])
    return float(learning_rates[1 + int(np.argmin(slopes[: max(1, int(np.argmin(smooth)))]))])


def suggest_learning_rates(learning_rates: Sequence[float], losses: Sequence[float]) -> tuple[dict[str, float], str]:
    """Apply every rule to the trend of a finder's curve.

    Args:
        learning_rates: rising, above 0, [N].
        losses: the loss at each rate as it was measured, finite, [N].

    Returns:
        The rates by the rule's name, the default first, and what they rest on. There is none when the curve has fewer
        than 3 points or never falls by 10 % of its start: the text then says what to change in the sweep.

    Raises:
        ValueError: the inputs differ in length, a rate is not above the one before it or not above 0, or a loss is not
            finite.

    """
    if len(learning_rates) != len(losses):
        raise ValueError(f"{len(learning_rates)} rates and {len(losses)} losses; each rate needs its loss.")
    longer = "Lengthen the sweep: twice the steps, or raise stop or lower start with as many steps a decade."
    for place, (before, rate, loss) in enumerate(zip((0.0, *learning_rates), learning_rates, losses, strict=False)):
        if not (before < rate < math.inf and math.isfinite(loss)):
            raise ValueError(
                f"point {place} of the curve has rate {rate} and loss {loss}; rates must rise from above 0, and losses "
                "must be finite. Cut the curve where it diverges, as find_lr does."
            )
    if len(losses) < 3:
        return {}, f"No suggestion: the curve has {len(losses)} point(s) and 3 are needed. {longer}"
    rates = np.asarray(learning_rates, dtype=float)
    smooth = trend(rates, losses)
    lowest = int(np.argmin(smooth))
    fall, chance = _fall(np.asarray(losses, dtype=float))
    if fall < SMALLEST_FALL:
        return {}, f"No suggestion: the loss falls by {fall:.1%} at most, {SMALLEST_FALL:.0%} is needed. {longer}"
    if fall < chance:
        return {}, (
            f"No suggestion: the loss falls by {fall:.0%}, and varies so much from step to step that {chance:.0%} is "
            f"needed. Accumulate batches or take larger ones. {longer}"
        )
    reason = (
        f"The loss falls by {fall:.0%} and is lowest at learning rate {rates[lowest]:.2g}. The suggestion lies "
        "a third of the way across the stretch where the loss is near its lowest, whose ends depend less on the seed "
        f"than a minimum or a steepest slope. It is at most 1/{SAFETY:g} of the rate at which the loss diverges."
    )
    if lowest == len(losses) - 1:
        reason += " The loss is still falling where the curve ends, so larger rates may do better: raise stop."
    rules = (valley_floor, minimum_over_10, steepest)
    return {rule.__name__: rule(rates, smooth) for rule in rules}, reason


def is_hidden_by_noise(losses: Sequence[float]) -> bool:
    """Whether a curve falls enough for a suggestion, and varies too much from step to step for anybody to tell.

    So does one that is too short to say how much it varies, as where noise alone ended the sweep early.
    """
    if len(losses) < 3:
        return False
    fall, chance = _fall(np.asarray(losses, dtype=float))
    return fall >= SMALLEST_FALL and (fall < chance or _width(losses) == 1)


def _start(losses: Curve) -> float:
    """The mean of the first tenth of the sweep."""
    return float(losses[: max(1, len(losses) // 10)].mean())


def _fall(losses: Curve) -> tuple[float, float]:
    """How far the losses fall, and how far chance alone could let them seem to, as shares of the start.

    A narrow valley is shallow in the trend, so the fall is that of the median over a twentieth of the sweep. Chance is
    four standard errors of that median, from the differences between successive losses in the first half.
    """
    width = _width(losses)
    start = _start(losses)
    lowest = np.median(np.lib.stride_tricks.sliding_window_view(losses, width), axis=1).min()
    # Relative to the magnitude, so that it also holds for losses below 0, such as negative log-densities.
    scale = max(abs(start), np.finfo(float).tiny)
    steps = np.abs(np.diff(losses[: len(losses) // 2])) if width > 1 else np.zeros(1)
    # 1.48 times the median is a standard deviation that outliers do not move. A difference of two losses has √2 times
    # the noise of one; a median's standard error is 1.25 times a mean's.
    noise = float(np.median(steps)) * 1.48 / math.sqrt(2)
    return float(start - lowest) / scale, 4 * 1.25 * noise / math.sqrt(width) / scale


def _width(losses: Sequence[float] | Curve) -> int:
    """A twentieth of the sweep."""
    return max(1, len(losses) // 20)


def _around(logarithms: Curve, smooth: Curve, lowest: int, level: float) -> tuple[float, float]:
    """Where the curve crosses a level on either side of its minimum; the end of the sweep where it does not."""
    above = np.flatnonzero(smooth > level)
    before, after = above[above < lowest], above[above > lowest]
    left = _crossing(logarithms, smooth, level, int(before[-1])) if len(before) else float(logarithms[0])
    right = _crossing(logarithms, smooth, level, int(after[0]) - 1) if len(after) else float(logarithms[-1])
    return left, right


def _crossing(logarithms: Curve, smooth: Curve, level: float, left: int) -> float:
    """Where the line from a point to the next one passes a level."""
    share = (level - smooth[left]) / (smooth[left + 1] - smooth[left])
    return float(logarithms[left] + share * (logarithms[left + 1] - logarithms[left]))
