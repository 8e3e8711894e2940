"""Predictions: recorded before the cell that reveals the result, compared with it afterwards."""

from __future__ import annotations

import math

_PREDICTIONS: dict[str, object] = {}


def predict(key: str, guess: float | str | None) -> None:
    """Record a prediction under `key`. `None` means that none was made, and is said so; it never stops a notebook."""
    _PREDICTIONS[key] = guess
    if guess is None:
        print("No prediction yet. Replace None by your guess and run this cell before you go on.")
    else:
        print(f"Recorded: {guess}")


def reveal(key: str, actual: float | str, unit: str = "", tolerance: float | None = None) -> None:
    """Show what happened beside what was predicted under `key`.

    Args:
        key: the one that the prediction was recorded under.
        actual: what happened, a number or a word.
        unit: shown behind a number.
        tolerance: how far a predicted number may be off, in the same unit; default: 10 % of the actual number.

    """
    shown = f"{actual:.4g}" if isinstance(actual, float | int) else str(actual)
    print(f"It is {shown}{' ' + unit if unit else ''}. {_verdict(_PREDICTIONS.get(key), actual, tolerance)}")


def _verdict(guess: object, actual: float | str, tolerance: float | None) -> str:
    if guess is None:
        return "You made no prediction."
    if isinstance(actual, str):
        right = str(guess).strip().lower() == actual.strip().lower()
        return f"You predicted {guess}: " + ("right." if right else "find out why it is not so before you read on.")
    try:
        number = float(guess)  # type: ignore[arg-type]  # text and tensors too; what is no number is said below
    except (TypeError, ValueError):
        return f"You predicted {guess!r}, which is not a number."
    allowed = abs(actual) / 10 if tolerance is None else tolerance
    if math.isclose(number, actual, rel_tol=0.0, abs_tol=max(allowed, 1e-9)):
        return f"You predicted {number:g}: right, or close to it."
    direction = "too high" if number > actual else "too low"
    return f"You predicted {number:g}, {direction}: find out why before you read on."
