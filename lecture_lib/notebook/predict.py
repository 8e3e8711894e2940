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


def reveal(key: str, actual: float | str, unit: str = "") -> None:
    """Show what happened beside what was predicted under `key`.

    A number within 10 % counts as close: the point of a prediction is the size and the sign, not the digits.
    """
    shown = f"{actual:.4g}" if isinstance(actual, float | int) else str(actual)
    print(f"It is {shown}{' ' + unit if unit else ''}. {_verdict(_PREDICTIONS.get(key), actual)}")


def _verdict(guess: object, actual: float | str) -> str:
    if guess is None:
        return "You made no prediction."
    if isinstance(actual, float | int):
        if not isinstance(guess, float | int):
            return f"You predicted {guess!r}, which is not a number."
        if math.isclose(guess, actual, rel_tol=0.1, abs_tol=1e-9):
            return f"You predicted {guess:g}: right, or close to it."
        direction = "too high" if guess > actual else "too low"
        return f"You predicted {guess:g}, {direction}: find out why before you read on."
    if str(guess).strip().lower() == actual.strip().lower():
        return f"You predicted {guess}: right."
    return f"You predicted {guess}: find out why it is not so before you read on."
