"""Reading the finder's curve: rules on plain numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Share of the first loss by which a curve must fall before its minimum means anything.
SMALLEST_FALL = 0.1


def steepest(learning_rates: Sequence[float], losses: Sequence[float]) -> float:
    """The rate at which the loss falls fastest on the log-rate axis.

    The most negative central difference of loss against log10(rate), among inner points up to the minimum.
    Differences enlarge noise: give it smoothed losses.
    Source: L. Smith (2015), arXiv:1506.01186; lecture part 4.
    """
    slopes = np.gradient(np.asarray(losses), np.log10(learning_rates))
    last = min(int(np.argmin(losses)), len(losses) - 2)
    return float(learning_rates[1 + int(np.argmin(slopes[1 : last + 1]))])


def minimum_over_10(learning_rates: Sequence[float], losses: Sequence[float]) -> float:
    """One decade below the rate of the lowest loss, where the minimum itself is the edge of divergence.

    Source: lecture part 4 ("one order of magnitude before the minimum").
    """
    return float(learning_rates[int(np.argmin(losses))]) / 10


def suggest_learning_rates(learning_rates: Sequence[float], losses: Sequence[float]) -> tuple[dict[str, float], str]:
    """Apply every rule to a finder's curve.

    Args:
        learning_rates: rising, above 0, [N].
        losses: the loss at each rate, finite and best smoothed, [N].

    Returns:
        The rates by the rule's name, and what they rest on. There is none when the curve has fewer than 3 points or
        never falls by 10 % of its first loss: the text then says what to change in the sweep.

    Raises:
        ValueError: the inputs differ in length.

    """
    if len(learning_rates) != len(losses):
        raise ValueError(f"{len(learning_rates)} rates and {len(losses)} losses; each rate needs its loss.")
    longer = "Lengthen the sweep: raise stop or lower start, with as many steps a decade or more."
    if len(losses) < 3:
        return {}, f"No suggestion: the curve has {len(losses)} point(s) and 3 are needed. {longer}"
    lowest = int(np.argmin(losses))
    # Relative to the magnitude, so that it also holds for losses below 0, such as negative log-densities.
    fall = (losses[0] - losses[lowest]) / max(abs(losses[0]), np.finfo(float).tiny)
    if fall < SMALLEST_FALL:
        return (
            {},
            f"No suggestion: the loss falls by {fall:.1%} at most, {SMALLEST_FALL:.0%} is needed. {longer}",
        )
    reason = f"The loss falls by {fall:.0%} and is lowest at learning rate {learning_rates[lowest]:.2g}."
    if lowest == len(losses) - 1:
        reason += " It is still falling where the curve ends, so larger rates may do better: raise stop."
    rules = (steepest, minimum_over_10)
    return {rule.__name__: rule(learning_rates, losses) for rule in rules}, reason
