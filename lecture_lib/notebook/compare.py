"""Compares a value with the expected one and says exact, equal to within a tolerance, or off by how much."""

from __future__ import annotations

from typing import Any

import numpy as np


def difference(actual: Any, expected: Any, relative_tolerance: float, name: str = "result") -> str | None:
    """What is different between two plain values, in words; None when they agree.

    Structure first, then shape and kind of number, then values: nothing is broadcast or converted silently. Numbers
    agree when they differ by at most `relative_tolerance` times the largest expected magnitude (1 at least).
    """
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or set(actual) != set(expected):
            return f"{name}: expected the entries {sorted(expected)}, got {_kind(actual)}"
        return _first(difference(actual[key], expected[key], relative_tolerance, key) for key in expected)
    if isinstance(expected, list | tuple):
        if not isinstance(actual, list | tuple):
            return f"{name}: expected a sequence of {len(expected)}, got {_kind(actual)}"
        if expected and all(isinstance(item, str) for item in [*actual, *expected]):
            return None if list(actual) == list(expected) else f"{name}: got {list(actual)}, expected {list(expected)}"
        if len(actual) != len(expected):
            return f"{name}: got {show(actual)}, expected {show(expected)}"
        pairs = enumerate(zip(actual, expected, strict=True))
        return _first(difference(a, e, relative_tolerance, f"{name}[{i}]") for i, (a, e) in pairs)
    if expected is None or isinstance(expected, str):
        same = type(actual) is type(expected) and actual == expected  # an array beside a text compares entry by entry
        return None if same else f"{name}: got {show(actual)}, expected {show(expected)}"
    return _numbers(actual, np.asarray(expected), relative_tolerance, name)


def agree(actual: Any, expected: Any, relative_tolerance: float) -> bool:
    """Whether two plain values agree in the sense of `difference`."""
    return difference(actual, expected, relative_tolerance) is None


def _numbers(actual: Any, expected: np.ndarray, relative_tolerance: float, name: str) -> str | None:
    if not isinstance(actual, np.ndarray | np.generic | int | float):
        return f"{name}: expected {_kind(expected)}, got {_kind(actual)}"
    array = np.asarray(actual)
    if array.shape and not expected.shape:
        return f"{name}: expected a number, got an array of shape {list(array.shape)}"
    if array.shape != expected.shape:
        return f"{name}: shape {list(array.shape)}, expected {list(expected.shape)}"
    if array.dtype.kind not in "biuf":
        return f"{name}: expected numbers, got dtype {array.dtype}"
    if expected.dtype.kind in "f" and array.dtype.kind == "f" and expected.ndim and array.dtype != expected.dtype:
        return f"{name}: dtype {array.dtype}, expected {expected.dtype}"
    values = array.astype(np.float64), expected.astype(np.float64)
    # Only a known mistake expects nan; then nan is what it gives. Two equal infinities have no difference either.
    same = (values[0] == values[1]) | (np.isnan(values[0]) & np.isnan(values[1]))
    gap = np.abs(np.subtract(*values, out=np.zeros(array.shape), where=~same))
    scale = float(np.abs(values[1]).max(initial=1.0, where=np.isfinite(values[1])))
    if gap.size == 0 or bool((gap <= relative_tolerance * scale).all()):
        return None
    if expected.ndim == 0:
        return f"{name}: got {float(array):.6g}, expected {float(expected):.6g}"
    # NaN counts as infinitely far off, so that it is the place that is named.
    worst = np.unravel_index(int(np.nanargmax(np.where(np.isnan(gap), np.inf, gap))), gap.shape)
    where = ", ".join(str(int(index)) for index in worst)
    return f"{name}: off by {gap[worst]:.3g} at [{where}]: got {array[worst]:.6g}, expected {expected[worst]:.6g}"


def _first(differences: Any) -> str | None:
    return next((text for text in differences if text is not None), None)


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        return "a number" if array.ndim == 0 else f"an array of shape {list(array.shape)}"
    if value is None:
        return "None (is a `return` missing?)"
    if isinstance(value, dict):
        return f"the entries {sorted(value)}"
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, list | tuple) else "")


def show(value: Any) -> str:
    """A plain value as a student would write it."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show(item) for item in value) + "]"
    if isinstance(value, np.ndarray | np.generic):
        return np.array2string(np.asarray(value), precision=6, separator=", ")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {show(item)}" for key, item in value.items()) + "}"
    return repr(value)
