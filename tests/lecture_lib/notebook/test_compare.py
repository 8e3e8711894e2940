"""Whether two plain values agree, where a difference alone would not tell: infinities and what is no number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from lecture_lib.notebook.compare import agree

INF = math.inf


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        (INF, INF, True),
        (1.0, INF, False),
        (INF, -INF, False),
        (math.nan, math.nan, True),
        (1.0, math.nan, False),
        (np.array([1.0, INF]), np.array([1.0, INF]), True),
        (np.array([2.0, INF]), np.array([1.0, INF]), False),
        (np.array([1.0, -INF]), np.array([1.0, INF]), False),
    ],
)
def test_an_infinity_agrees_with_itself_and_excuses_nothing_beside_it(value: Any, expected: Any, same: bool) -> None:
    assert agree(value, expected, 1e-6) == same
