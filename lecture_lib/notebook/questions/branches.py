"""Networks whose outputs tell how they were run, and a loss that tells its arguments apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn


class Branches(nn.Module):
    """Linear branches [N, F] -> [N, 1], added: one as it is, one behind dropout, maybe one behind frozen dropout.

    Dropout with p = 1 gives zeros in train mode and its input in eval mode, without a random number: which branches
    are in the sum says which layers were in eval mode.

    Args:
        weights: one row for each branch: as it is, behind dropout, maybe behind dropout that is kept in eval mode.
            [2 or 3, F]

    """

    def __init__(self, weights: np.ndarray) -> None:
        super().__init__()
        self.plain, self.dropped, *frozen = (_linear(row) for row in np.asarray(weights, dtype=np.float64))
        self.dropout = nn.Dropout(1.0)
        self.frozen = nn.Sequential(nn.Dropout(1.0).eval(), frozen[0]) if frozen else None

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [N, 1] for inputs [N, F]."""
        outputs: Tensor = self.plain(x) + self.dropped(self.dropout(x))
        return outputs if self.frozen is None else outputs + self.frozen(x)


class Taped(nn.Module):
    """A linear map [N, F] -> [N, 1] that adds `offset` to its outputs whenever autograd writes them down."""

    def __init__(self, weight: np.ndarray, offset: float) -> None:
        super().__init__()
        self.linear, self.offset = _linear(weight), offset

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [N, 1] for inputs [N, F]."""
        outputs: Tensor = self.linear(x)
        return outputs + self.offset if outputs.requires_grad else outputs


def asymmetric_loss(above: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Mean squared error in which an output above its target counts `above` times; with 1 it is nn.MSELoss."""
    return lambda output, y: (torch.where(output > y, above, 1.0) * (output - y) ** 2).mean()


def pairs(x: list[np.ndarray], y: list[np.ndarray]) -> list[tuple[Tensor, Tensor]]:
    """Batches of arrays as batches of tensors, in float64."""
    return [
        (torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)) for a, b in zip(x, y, strict=True)
    ]


def _linear(weight: np.ndarray) -> nn.Linear:
    # No random start: it would move the stream that a question looks at.
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, len(weight), 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight))
    return layer
