"""Measured values in a notebook: a number behind `≈` may differ a little when nbval runs the notebook again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

NUMBER = re.compile(r"≈ ([-+]?\d+(?:\.\d+)?)")
RELATIVE = 0.25
DIGITS = 3
"""A number may be off by a quarter of its value, or by three units of its last digit, whichever is more."""


def allowed(number: str) -> float:
    """How far another run's number may lie from this one, as it was printed."""
    decimals = len(number.partition(".")[2])
    return max(RELATIVE * abs(float(number)), DIGITS * 10.0**-decimals)


def numbers_of(outputs: Iterable[Mapping[str, Any]]) -> list[str]:
    """The numbers behind `≈` in what a cell printed or displayed as text."""
    texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs]
    return NUMBER.findall("\n".join(texts))


def differing(outputs: Iterable[Mapping[str, Any]], stored: Iterable[Mapping[str, Any]]) -> list[str]:
    """A sentence for each number that is further from the stored one than is allowed."""
    pairs = zip(numbers_of(outputs), numbers_of(stored), strict=False)  # nbval tells a missing line
    return [
        f"≈ {number} is further than {allowed(expected):g} from the stored ≈ {expected}"
        for number, expected in pairs
        if abs(float(number) - float(expected)) > allowed(expected)
    ]


def install() -> None:
    """Have nbval compare the numbers behind `≈`, which tests/nbval.cfg takes out of its own comparison."""
    from nbval.plugin import IPyNbCell

    compare = IPyNbCell.compare_outputs

    def compare_outputs(self: Any, test: Any, ref: Any, skip_compare: Any = None) -> bool:
        same = compare(self, test, ref, skip_compare)
        told = differing(test, ref)
        self.comparison_traceback += told
        return same and not told

    IPyNbCell.compare_outputs = compare_outputs
