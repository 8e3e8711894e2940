"""A step that would ruin the weights is refused before it is taken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .checks import optimised_parameters
from .clipping import Groups
from .processes import ALONE, Processes


class NonFiniteError(FloatingPointError):
    """A step that was refused.

    Attributes:
        what: 'loss' or 'gradient'.
        value: of the loss; 'not finite' for a gradient.

    """

    def __init__(self, message: str, what: str, value: float | str) -> None:
        super().__init__(message)
        self.what = what
        self.value = value


@dataclass
class Moment:
    """Where in a run something happened, for messages."""

    epoch: int = 0
    step: int = 0
    learning_rate: float = 0.0
    ids: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        where = f"epoch {self.epoch}, step {self.step}, learning rate {self.learning_rate:g}"
        named = [str(one.tolist() if isinstance(one, Tensor) else one) for one in self.ids if one is not None]
        return where + (f", examples {'; '.join(named)[:500]}" if named else "")


class FiniteGuard:
    """Keeps non-finite losses and gradients from the weights.

    On the CPU a look at each number is cheap, so the error comes at once. A GPU would have to stop for each look:
    there the step's gradients are set to zero on the device when they, or the loss, are not finite, and the error
    comes at the next `look`, when the host waits for the device anyway.

    Args:
        model: names the parameters in messages.
        optimizer: whose gradients count.
        deferred: look at the device only when asked to.
        processes: that take each step together.

    """

    def __init__(self, model: nn.Module, optimizer: Optimizer, *, deferred: bool, processes: Processes = ALONE) -> None:
        self.processes = processes
        self.model = model
        self.optimizer = optimizer
        self.deferred = deferred
        self._finite: Tensor | None = None  # whether all was finite since the last look, on the device

    def loss_is_finite(self, loss: Tensor) -> bool:
        """Whether a loss is finite; when deferred True, and noted on the device."""
        if self.deferred:
            self._note(loss.detach().isfinite().all())
            return True
        return math.isfinite(loss.item())

    def gradients_are_finite(self, groups: Groups, norm: Tensor | float) -> bool:
        """Whether all gradients are finite; when deferred True, and those of a bad step are zero.

        Args:
            groups: the gradients of the optimizer's parameters, see `clipping.gradients_by_device`.
            norm: their global norm: finite only if they are; where it is not, each of them is looked at.

        """
        if not self.deferred:
            return math.isfinite(norm) or all_finite(groups.values())
        for gradients in groups.values():
            # An entry that is not finite makes its tensor's largest magnitude so.
            self._note(torch.stack(torch._foreach_norm(gradients, math.inf)).isfinite().all())
        self._finite = everywhere = self.processes.agree(cast(Tensor, self._finite))
        for device, gradients in groups.items():
            refused = ~everywhere.to(device)
            for gradient in gradients:
                gradient.masked_fill_(refused, 0)
        return True

    def look(self, moment: Moment) -> None:
        """Wait for the device and raise when something since the last look was not finite."""
        if self._finite is not None and self.processes.any(not bool(self._finite)):
            raise FloatingPointError(
                f"{moment}: a loss or gradient since the last look was not finite; those steps were taken with "
                "gradients of zero, so the weights are finite. Run on the CPU for the step and its examples; look for "
                "NaN in the inputs, or lower the rate."
            )
        self._finite = None

    def _note(self, finite: Tensor) -> None:
        self._finite = finite if self._finite is None else self._finite & finite.to(self._finite.device)

    def loss_error(self, loss: Tensor, moment: Moment) -> NonFiniteError:
        """What to raise for a loss that is not finite."""
        return NonFiniteError(
            f"{moment}: the loss is {loss.item()}. The weights are those before this step. Look for NaN in this "
            "batch's inputs; else lower the rate (find_lr shows its range).",
            "loss",
            loss.item(),
        )

    def gradient_error(self, moment: Moment) -> NonFiniteError:
        """What to raise for gradients that are not finite."""
        parameters = [p for p in optimised_parameters(self.optimizer) if p.grad is not None]
        culprit = next(p for p in parameters if p.grad is not None and not all_finite([[p.grad]]))
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        name = names.get(id(culprit), f"a parameter {list(culprit.shape)} outside the model")
        return NonFiniteError(
            f"{moment}: the loss is finite and the gradient of {name} is not. The weights are those before this step. "
            "Look for sqrt, log or a division at 0 in the model or loss.",
            "gradient",
            "not finite",
        )


def all_finite(groups: Iterable[Sequence[Tensor]]) -> bool:
    """Whether all entries of all tensors are finite."""
    # The largest magnitude, which works for sparse tensors too, and which a tensor without entries has not.
    tensors = (one for group in groups for one in group if one.numel())
    return all(bool(torch.linalg.vector_norm(one, math.inf).isfinite()) for one in tensors)
