"""Predictions: recorded before the cell that reveals the result, compared with it afterwards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import SupportsFloat

from torch import Tensor

_PREDICTIONS: dict[str, object] = {}
_UNEXPLAINED = "Find out why before you read on."


def predict(key: str, guess: float | str | None) -> None:
    """Record a prediction under `key`. `None` means that you made none: this is said, and the notebook goes on."""
    _PREDICTIONS[key] = guess
    if guess is None:
        print("No prediction yet. Replace None with your guess and run this cell before you go on.")
    else:
        print(f"Recorded: {guess}")


def reveal(
    key: str,
    actual: SupportsFloat | str,
    unit: str = "",
    tolerance: float | None = None,
    usual: Mapping[float | str, str] | None = None,
) -> None:
    """Show the result beside what was predicted under `key`.

    Args:
        key: the key that the prediction was recorded under.
        actual: the result: a number, a tensor or array of one number, or a word.
        unit: shown behind a number.
        tolerance: how far a predicted number may be off, in the same unit; default: 10 % of the actual number.
        usual: the usual wrong predictions, each with a sentence on what it would have meant. A prediction gets the
            sentence of the nearest one if it is within the tolerance and at most a factor of two away from it.

    """
    actual = actual if isinstance(actual, str) else _number(actual)
    result = f'The answer is "{actual}".' if isinstance(actual, str) else f"It is {_shown(actual, unit)}."
    print(result, _verdict(_PREDICTIONS.get(key), actual, unit, tolerance, usual or {}))


def _number(value: SupportsFloat | str) -> float:
    # float() warns about a tensor that requires gradients, such as a loss.
    return float(value.detach() if isinstance(value, Tensor) else value)


def _shown(number: float, unit: str) -> str:
    """A number as a reader would write it."""
    # Four digits would show a count of 250,000 as 2.5e+05.
    count = 1e4 <= abs(number) < 1e9 and number == round(number)
    return f"{number:{',.0f' if count else '.4g'}}{' ' + unit if unit else ''}"


def _verdict(
    guess: object, actual: float | str, unit: str, tolerance: float | None, usual: Mapping[float | str, str]
) -> str:
    if guess is None:
        return "You made no prediction."
    if isinstance(actual, str):
        word = str(guess).strip().lower()
        if word == actual.strip().lower():
            return f'You predicted "{guess}": right.'
        meanings = [text for name, text in usual.items() if word == str(name).lower()]
        return f'You predicted "{guess}". {meanings[0] if meanings else _UNEXPLAINED}'
    try:
        number = _number(guess)  # type: ignore[arg-type]  # text and tensors too; anything else is named below
    except (TypeError, ValueError):
        return f"You predicted {guess!r}, which is not a number."
    # A tenth of infinity would allow everything.
    tenth = abs(actual) / 10 if math.isfinite(actual) else 0.0
    allowed = tenth if tolerance is None else tolerance
    if _near(number, actual, allowed):
        return f"You predicted {_shown(number, unit)}: right, or close to it."
    nearby = {float(value): text for value, text in usual.items() if _near(number, float(value), allowed)}
    nearest = min(nearby, key=lambda value: abs(number - value), default=math.nan)
    # Infinity and nan are near themselves alone, and have no ratio.
    meant = nearest == 0 or not math.isfinite(nearest) or 0.5 <= number / nearest <= 2
    meaning = nearby.get(nearest, _UNEXPLAINED) if meant else _UNEXPLAINED
    return f"You predicted {_shown(number, unit)}, {_distance(number, actual, unit)}. {meaning}"


def _near(number: float, target: float, allowed: float) -> bool:
    # Also with a tolerance of 0: 0.1 + 0.2 is a right prediction of 0.3.
    close = math.isclose(number, target, rel_tol=0.0, abs_tol=allowed + 1e-9)
    return close or (math.isnan(number) and math.isnan(target))


def _distance(number: float, actual: float, unit: str) -> str:
    """How far a prediction is from the result: as a factor where the two differ by powers of ten."""
    if not (math.isfinite(number) and math.isfinite(actual)):
        return f"not {_shown(actual, unit)}"
    direction = "high" if number > actual else "low"
    if number * actual > 0 and not 0.1 < abs(number / actual) < 10:
        factor = max(number / actual, actual / number)
        return f"too {direction} by a factor of {factor:.2g}"
    return f"{_shown(abs(number - actual), unit)} too {direction}"
