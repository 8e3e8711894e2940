"""How a loss or gradient of a student is reported, whatever its precision."""

from __future__ import annotations

from typing import Any

import torch


def in_float64(values: Any) -> torch.Tensor:
    """Values in float64; infinity as nan, because a difference of two infinities cannot be compared."""
    return torch.as_tensor(values).double().nan_to_num(torch.nan, torch.nan, torch.nan)
