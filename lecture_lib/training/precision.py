"""Number formats of a step: FP32, BF16 under autocast, FP16 under autocast with a scaled loss."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

NAMES = ("fp32", "bf16", "fp16", "auto")
AUTOCAST_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
NATIVE_BF16 = (8, 0)  # CUDA compute capability from which the hardware multiplies BF16 itself: Ampere
# FP16's smallest number above 0: a smaller scale would itself be 0 in FP16.
SMALLEST_SCALE = 2.0**-24
_PLAIN = nullcontext()


class Precision:
    """What a training step does differently in a number format; under 'fp32' and 'bf16' almost nothing.

    Parameters, gradients and optimizer state stay FP32 in each of them: autocast converts the inputs of matrix
    products and convolutions, not what is stored. FP16's smallest numbers are too large for many gradients, so the loss
    is scaled up before backward and the gradients down before the step; when a scaled gradient overflows, the step is
    skipped and the scale halved. BF16 has the exponents of FP32 and needs none of that.
    Source: Micikevicius et al. 2018, arXiv:1710.03740; lecture part 2, precision.

    A step, in this order; clipping, where wanted, goes between unscale and step::

        with precision.autocast():
            loss = loss_fn(model(x), y)
        precision.backward(loss)
        precision.unscale(optimizer)
        taken = precision.step(optimizer)

    Attributes:
        name: 'fp32', 'bf16' or 'fp16'.

    """

    def __init__(self, name: str, device: torch.device | str) -> None:
        if name not in NAMES[:-1]:
            raise ValueError(f"precision is {name!r}; pass one of 'fp32', 'bf16', 'fp16', or ask choose_precision.")
        self.name = name
        self.device_type = torch.device(device).type

    @cached_property
    def scaler(self) -> torch.amp.GradScaler | None:
        """Torch's loss scaler under 'fp16', else None; made on first use, as it warns where the device is missing."""
        return torch.amp.GradScaler(self.device_type) if self.name == "fp16" else None

    def autocast(self) -> AbstractContextManager[Any]:
        """A context for the forward pass and the loss; backward goes outside of it."""
        if self.name == "fp32":
            return _PLAIN
        return torch.autocast(self.device_type, AUTOCAST_DTYPES[self.name])

    def backward(self, loss: Tensor) -> None:
        """Add the loss's gradients, scaled under 'fp16', to those that are there."""
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def unscale(self, optimizer: Optimizer) -> None:
        """Divide the gradients by the scale, once for each step and after the last backward; call it before clipping.

        Raises:
            RuntimeError: a second call before the step.

        """
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)

    def step(self, optimizer: Optimizer) -> bool:
        """Step the optimizer unless an FP16 gradient overflowed, and adapt the scale.

        Returns:
            Whether the step was taken. After one that was not, leave the schedule where it is.

        Raises:
            FloatingPointError: the scale has fallen below 2**-24 through skipped steps.

        """
        if self.scaler is None:
            optimizer.step()
            return True
        before = self.scaler.get_scale()
        self.scaler.step(optimizer)
        self.scaler.update()
        after = self.scaler.get_scale()
        if after < SMALLEST_SCALE:
            raise FloatingPointError(
                f"the loss scale has fallen to {after:g}, below 2**-24 (FP16's smallest number), through skipped "
                "steps: no scale makes the gradients finite. The weights are those before the skipped steps. Look for "
                "NaN in the inputs and for log, sqrt or a division at 0; then try precision 'bf16' or 'fp32'."
            )
        return after >= before  # a smaller scale means that the scaler left the step out

    def state_dict(self) -> dict[str, Any]:
        """Numbers and texts only, so that a checkpoint loads with weights_only=True."""
        return {"name": self.name, "scaler": None if self.scaler is None else self.scaler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with the scale of a stored run.

        Raises:
            ValueError: the run was in another precision.

        """
        if state["name"] != self.name:
            raise ValueError(
                f"the checkpoint was trained in {state['name']!r} and this run is in {self.name!r}. Pass "
                f"precision={state['name']!r} to resume it."
            )
        if self.scaler is not None:
            self.scaler.load_state_dict(state["scaler"])


def choose_precision(name: str, device: torch.device | str, *, capability: tuple[int, int] | None = None) -> Precision:
    """The precision of a run; 'auto' takes the fastest that the hardware has.

    On CUDA that is BF16 from compute capability 8.0 and FP16 below. `torch.cuda.is_bf16_supported()` is no guide: it
    also says True where BF16 is emulated, as on a T4 (7.5), which has FP16 units only. Elsewhere it is FP32: a CPU may
    run BF16 at half the speed of FP32 or at twice it, by model and processor, so there ask for it and measure. A name
    other than 'auto' is taken as it is, emulated or not.

    Args:
        name: 'fp32', 'bf16', 'fp16' or 'auto'.
        device: where the model is.
        capability: CUDA compute capability (major, minor); default: asked from the device.

    Raises:
        ValueError: an unknown name.

    """
    if name not in NAMES:
        raise ValueError(f"precision is {name!r}; pass one of {', '.join(map(repr, NAMES))}.")
    if name != "auto":
        return Precision(name, device)
    if torch.device(device).type != "cuda":
        return Precision("fp32", device)
    if capability is None:
        capability = torch.cuda.get_device_capability(device)
    return Precision("bf16" if capability >= NATIVE_BF16 else "fp16", device)
