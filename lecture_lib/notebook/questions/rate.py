"""03b-lr: choose a learning rate from a finder's curve, or say that the curve allows no choice."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..question import Functions, Inputs, PublicQuestion

GOOD, NO_RATE = "within the good range", "no suggestion"
BELOW, ABOVE = "below the good range: the loss has hardly begun to fall", "far above the lowest loss"
AT_LOWEST = "at the lowest loss, or just beside it"
NEVER_FALLS = "a rate, on a curve that never falls"
POSITION = "a whole number that is no rate of the sweep but could be a position in it"
NO_NUMBER = "not a single number"


def place(rate: Any, good: tuple[float, float] | None, lowest: float) -> str:
    """Where a choice lies, in words: a range cannot be compared with one number.

    Args:
        rate: what was returned, as plain data.
        good: the smallest and the largest rate of the good range; None for a curve that allows no choice.
        lowest: the rate of the lowest loss.

    """
    if rate is None:
        return NO_RATE
    number = np.asarray(rate)
    if number.shape != () or number.dtype.kind not in "iuf" or np.isnan(number):
        return NO_NUMBER
    if good is None:
        return NEVER_FALLS
    if good[0] <= number <= good[1]:
        return GOOD
    if number.dtype.kind in "iu" or (number >= 11 and float(number).is_integer()):
        return POSITION
    if number < good[0]:
        return BELOW
    return AT_LOWEST if number <= 2 * lowest else ABOVE


def _choice(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    rate = functions["choose_rate"](inputs["rates"].copy(), inputs["losses"].copy())
    if "lowest" not in inputs:
        return {"rate": rate}
    return {"place": place(rate, inputs["good"], inputs["lowest"])}


QUESTION = PublicQuestion(
    id="03b-lr",
    title="choose a rate",
    functions=("choose_rate",),
    parts={"rate": _choice},
    repeatable=("choose_rate",),
)
