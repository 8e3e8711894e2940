"""A step that would ruin the weights is refused before it is taken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..clipping import Gradients, Groups
from ..precision import Precision
from .batches import Batch
from .checks import closure_needed, optimised_parameters
from .losses import require_graph
from .processes import ALONE, Processes
from .snapshot import Snapshot, buffers_of, finite_on_device
from .updates import LARGEST_GRADIENT, Updates


class NonFiniteError(FloatingPointError):
    """A step that was refused.

    Attributes:
        kind: 'loss', 'gradient', 'buffer' or 'update'.
        value: of the loss; 'not finite' for the others.

    """

    def __init__(self, message: str, kind: str, value: float | str) -> None:
        super().__init__(message)
        self.kind = kind
        self.value = value


@dataclass
class StepIndex:
    """Which step of a run this is, for messages."""

    epoch: int = 0
    step: int = 0
    learning_rate: float = 0.0
    ids: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        where = f"epoch {self.epoch}, step {self.step}, learning rate {self.learning_rate:g}"
        examples = [str(ids.tolist() if isinstance(ids, Tensor) else ids) for ids in self.ids if ids is not None]
        return where + (f", examples {'; '.join(examples)[:500]}" if examples else "")


class FiniteGuard:
    """Keeps losses, gradients and updates that are not finite from the weights and buffers.

    On the CPU checking each number is cheap, so the error is raised at once. A GPU would have to stop for each check.
    There the step's gradients are set to zero and the buffers restored on the device when something is not finite, and
    the error is raised at the next `look`, when the host waits for the device anyway. Gradients above LARGEST_GRADIENT
    are treated alike, so that no update can overflow.

    A forward pass changes buffers, such as the running statistics of batch normalisation, before anybody can know
    that its step will be refused. So they are copied when a step begins.

    When one of several processes refuses a step, all of them refuse it, after the same exchanges.

    Args:
        model: names the parameters in messages.
        optimizer: takes the steps.
        precision: of the steps.
        deferred: look at the device only when asked to.
        skip: leave a step out instead of raising.
        losses_only: look at nothing else, where the weights are put back anyway.
        processes: that take each step together.

    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        precision: Precision,
        *,
        deferred: bool = False,
        skip: bool = False,
        losses_only: bool = False,
        processes: Processes = ALONE,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.precision = precision
        self.deferred = deferred
        self.skip = skip
        self.losses_only = losses_only
        self.processes = processes
        self._updates = Updates(model, optimizer)
        self._holders = buffers_of(model)
        # On a device only buffers that are finite now are checked: a mask of -inf is deliberate.
        self._finite_holders = [
            name for name, holder in self._holders.items() if bool(finite_on_device(holder.values()))
        ]
        self._before: Snapshot | None = None
        self._finite: Tensor | None = None  # whether all was finite since the last look, on the device
        self._refusal: NonFiniteError | None = None
        self._index: object = ""

    @contextmanager
    def attempt(self, index: object) -> Iterator[None]:
        """A step: refused, it leaves the buffers as they were, and raises or is skipped.

        Args:
            index: of the step, for messages.

        """
        self._index = index
        self._refusal = None
        if self._holders and not self.losses_only:
            self._before = Snapshot(self._holders)
        try:
            yield
        except NonFiniteError:
            if not self.skip:
                raise
        finally:
            self._put_back()

    def check_loss(self, loss: Tensor, outputs: Any, batch: Batch) -> Tensor | float:
        """Refuse a loss that is not finite, or that no gradient can come from; return its value.

        Returns:
            Its value: a number where that costs no waiting, else a tensor on the device.

        """
        if self.deferred:
            self._note(loss.detach().isfinite().all())
            # In float64 like the numbers on the CPU, because an epoch's losses are summed.
            value: Tensor | float = loss.detach().double()
        else:
            value = loss.item()
            if not math.isfinite(value):
                self._refusal = self._loss_error(value)
                # Several processes go on to their next exchange: the others wait there.
                if self.processes.count == 1:
                    raise self._refusal
        if not loss.requires_grad:
            require_graph(loss, outputs, batch)
        return value

    def check_losses_and_buffers(self) -> None:
        """Refuse the step for a loss or buffer that is not finite, in any of the processes."""
        if self._refusal is None and not self._buffers_are_finite():
            self._refusal = self._buffer_error()
        # A deferred guard agrees on the device.
        if self.processes.count > 1 and not self.deferred:
            self._refuse_together()
        if self._refusal is not None:
            raise self._refusal

    def check_gradients(self, gradients: Gradients) -> None:
        """Refuse gradients that are not finite; when deferred, those of a bad step become zero."""
        # A scaler looks itself, and takes a smaller scale: an overflow in FP16 is part of its search.
        scaled = self.precision.scaler is not None
        if self.losses_only or (scaled and not self.deferred):
            return
        if not self.deferred:
            # A norm is finite only if all entries are; where it is not, each of them is looked at.
            if not (math.isfinite(gradients.norm) or gradients_are_finite(chain(*gradients.groups.values()))):
                raise self._gradient_error()
            return
        for group in gradients.groups.values() if not scaled else ():
            # An entry that is not finite makes its tensor's largest magnitude so, and compares as false.
            self._note((torch.stack(torch._foreach_norm(group, math.inf)) <= LARGEST_GRADIENT).all())
        self._agree(gradients.groups)

    def step(self, gradients: Gradients) -> bool:
        """Step the optimizer, unless its update is not finite.

        Returns:
            Whether the step was taken: a scaler leaves out those whose gradients overflowed.

        """
        try:
            taken = self._step(gradients)
        # Optimizers complain in different ways when their closure is missing.
        except (AssertionError, RuntimeError, TypeError) as error:
            if "closure" not in str(error).lower():
                raise
            raise TypeError(closure_needed(self.optimizer)) from error
        # The buffers belong to weights that are kept, so `attempt` must not put the old ones back.
        if taken:
            self._before = None
        return taken

    def look(self) -> None:
        """Wait for the device and raise when something since the last look was not finite."""
        if self._finite is not None and self.processes.any(not bool(self._finite)):
            raise FloatingPointError(
                f"{self._index}: a loss, gradient, buffer or update since the last look was not finite, or a gradient "
                f"above {LARGEST_GRADIENT:g}; those steps were taken with gradients of zero and former buffers, so the "
                "weights are finite. Run on the CPU for the step and its examples; look for NaN in the inputs, or "
                "lower the rate."
            )
        self._finite = None

    def _step(self, gradients: Gradients) -> bool:
        if self.losses_only:
            return self.precision.step(self.optimizer)
        if self.deferred:
            taken, finite = self._updates.step_on_device(self.precision)
            if finite is not None:
                self._note(finite)
            return taken
        taken, spoiled = self._updates.step(self.precision, float(gradients.norm))
        if spoiled:
            raise self._update_error(spoiled)
        return taken

    def _put_back(self) -> None:
        """Give the model the buffers that it had when the step began, unless it was taken."""
        if self._before is not None:
            self._before.restore()
            self._before = None

    def _note(self, finite: Tensor) -> None:
        self._finite = finite if self._finite is None else self._finite & finite.to(self._finite.device)

    def _buffers_are_finite(self) -> bool:
        if self._before is None:
            return True
        if not self.deferred:
            return not self._before.names_not_finite()
        self._note(finite_on_device(buffer for name in self._finite_holders for buffer in self._holders[name].values()))
        return True

    def _agree(self, groups: Groups) -> None:
        """Refuse in every process what one of them refuses, on the device: gradients are 0, buffers as before."""
        self._finite = everywhere = self.processes.agree(cast(Tensor, self._finite))
        for device, gradients in groups.items():
            refused = ~everywhere.to(device)
            for gradient in gradients:
                gradient.masked_fill_(refused, 0)
        if self._before is not None:
            self._before.restore_where(~everywhere)

    def _refuse_together(self) -> None:
        """Take the refusal of the first process that has one."""
        refusal = self._refusal
        if self.processes.any(refusal is not None):
            reasons = self.processes.gather(refusal and (str(refusal), refusal.kind, refusal.value))
            rank, (text, kind, value) = next((rank, reason) for rank, reason in enumerate(reasons) if reason)
            self._refusal = NonFiniteError(f"process {rank}: {text}", kind, value)

    def _loss_error(self, value: float) -> NonFiniteError:
        """What to raise for a loss that is not finite."""
        return NonFiniteError(
            f"{self._index}: the loss is {value}. Weights and buffers are those before this step. Look for NaN in "
            "this batch's inputs; else lower the rate (find_lr shows its range).",
            "loss",
            value,
        )

    def _gradient_error(self) -> NonFiniteError:
        """What to raise for gradients that are not finite."""
        parameters = [p for p in optimised_parameters(self.optimizer) if p.grad is not None]
        culprit = next(p for p in parameters if p.grad is not None and not gradients_are_finite([p.grad]))
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        name = names.get(id(culprit), f"a parameter {list(culprit.shape)} outside the model")
        return NonFiniteError(
            f"{self._index}: the loss is finite and the gradient of {name} is not. Weights and buffers are those "
            "before this step. Look for sqrt, log or a division at 0 in the model or loss.",
            "gradient",
            "not finite",
        )

    def _buffer_error(self) -> NonFiniteError:
        """What to raise for a forward pass that left a buffer that is not finite."""
        names = self._before.names_not_finite() if self._before else []
        return NonFiniteError(
            f"{self._index}: the loss is finite and {names[0]} would not be after this step. Weights and buffers are "
            "those before it. Look for NaN and for very large values in this batch's inputs, and scale them.",
            "buffer",
            "not finite",
        )

    def _update_error(self, spoiled: list[str]) -> NonFiniteError:
        """What to raise for an update that was taken back."""
        return NonFiniteError(
            f"{self._index}: loss and gradient are finite, and the optimizer's update would make {spoiled[0]} not "
            "finite. Weights, buffers and the optimizer's state are those before this step. Lower the learning rate, "
            "scale the inputs, or clip the gradient (max_norm=1.0).",
            "update",
            "not finite",
        )


def gradients_are_finite(gradients: Iterable[Tensor]) -> bool:
    """Whether all their entries are; the norm over all of them can overflow where they are."""
    # PyTorch before 2.12 has no norm of a sparse tensor.
    entries = (each.coalesce().values() if each.is_sparse else each for each in gradients)
    # The largest magnitude, which a tensor without entries has not.
    tensors = (tensor for tensor in entries if tensor.numel())
    return all(bool(torch.linalg.vector_norm(tensor, math.inf).isfinite()) for tensor in tensors)
