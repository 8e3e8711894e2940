"""Networks whose outputs tell how they were run, and a loss that tells its arguments apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn


class Tracker(nn.Module):
    """Passes inputs [N, F] on. In train mode its buffers change: a mean, a count, and one that state_dict() leaves out.

    Args:
        running_mean: where the mean starts. [F]
        momentum: how much of it each batch's mean replaces.

    """

    def __init__(self, running_mean: Tensor, momentum: float) -> None:
        super().__init__()
        self.running_mean: Tensor
        self.batches: Tensor
        self.latest: Tensor
        self.momentum = momentum
        self.register_buffer("running_mean", running_mean)
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))
        self.register_buffer("latest", torch.zeros_like(running_mean), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Inputs as they are."""
        if self.training:
            self.latest.copy_(x.detach().mean(dim=0))
            self.running_mean.lerp_(self.latest, self.momentum)
            self.batches += 1
        return x


class Branches(nn.Module):
    """Linear branches [N, F] -> [N, 1], added: one as it is, one behind dropout, maybe one behind frozen dropout.

    Dropout with p = 1 gives zeros in train mode and its input in eval mode, without a random number: which branches
    are in the sum says which layers were in eval mode. The second branch is dropped in the model's own train mode too.

    Args:
        weights: one row for each branch: as it is, behind dropout, maybe behind dropout that is kept in eval mode.
            [2 or 3, F]

    """

    def __init__(self, weights: np.ndarray) -> None:
        super().__init__()
        self.plain, self.dropped, *frozen = (_linear(row) for row in np.asarray(weights, dtype=np.float64))
        self.dropout = nn.Dropout(1.0)
        self.frozen = nn.Sequential(nn.Sequential(nn.Dropout(1.0)).eval(), frozen[0]) if frozen else None

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [N, 1] for inputs [N, F]."""
        kept = nn.functional.dropout(x, 1.0, self.training)
        outputs: Tensor = self.plain(x) + self.dropped(self.dropout(kept))
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


def asymmetric_loss(above: float, lowered: float = 0.0) -> Callable[[Tensor, Tensor], Tensor]:
    """Mean squared error, `lowered` by a number; an output above its target counts `above` times."""
    return lambda output, y: (torch.where(output > y, above, 1.0) * (output - y) ** 2).mean() - lowered


def pairs(x: list[np.ndarray], y: list[np.ndarray]) -> list[tuple[Tensor, Tensor]]:
    """Batches of arrays as batches of tensors, in float64."""
    return [
        (torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)) for a, b in zip(x, y, strict=True)
    ]


def changes(before: nn.Module, after: nn.Module) -> dict[str, list[str]]:
    """Names of the parameters, buffers and modules' modes that differ from those of a copy made before."""
    tensors = (("parameters", nn.Module.named_parameters), ("buffers", nn.Module.named_buffers))
    changed = {
        kind: [name for (name, old), (_, new) in zip(named(before), named(after), strict=True) if not old.equal(new)]
        for kind, named in tensors
    }
    modules = zip(before.named_modules(), after.modules(), strict=True)
    return {**changed, "modes": [name or "the model" for (name, old), new in modules if old.training != new.training]}


def _linear(weight: np.ndarray) -> nn.Linear:
    # No random start: it would move the stream that a question looks at.
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, len(weight), 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight))
    return layer
