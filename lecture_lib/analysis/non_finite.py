"""Where the first number that is not finite appears: in the data, a layer's output, the loss, or on the way back."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class NonFinite:
    """The first place with nan or infinity.

    Attributes:
        phase: 'weights', 'inputs', 'forward', 'loss' or 'backward'.
        where: the parameter, the layer or the operation.
        about: one sentence for people.

    """

    phase: str
    where: str
    about: str

    def __str__(self) -> str:
        return self.about


def find_non_finite(model: nn.Module, loss: Callable[[nn.Module], Tensor]) -> NonFinite | None:
    """Name the first place of a forward and backward pass at which a number is not finite.

    It is slow (PyTorch's anomaly mode), so ask it once, with the weights and the batch for which training failed.

    Args:
        model: stays as it is: a copy runs, without a change of mode, buffers or gradients.
        loss: model -> the loss of that batch, a scalar.

    Returns:
        The place, or None when loss and gradients are finite.

    """
    runs = copy.deepcopy(model)
    for name, parameter in runs.named_parameters():
        if not _finite(parameter):
            return NonFinite("weights", name, f"the parameter {name} is not finite: an earlier step broke it")
    first: list[NonFinite] = []
    handles = [
        module.register_forward_hook(_watch(name or "model", first))
        for name, module in runs.named_modules()
        if not list(module.children())
    ]
    try:
        with warnings.catch_warnings(), torch.autograd.set_detect_anomaly(True):
            warnings.simplefilter("ignore")  # anomaly mode warns with a traceback before it raises
            value = loss(runs)
            if first or not _finite(value):
                return (first or [NonFinite("loss", "loss", "every layer's output is finite, and the loss is not")])[0]
            value.backward()
    except RuntimeError as error:
        operation = re.search(r"Function '(\w+)' returned nan values", str(error))
        if operation is None:
            raise
        name = operation[1].removesuffix("0").removesuffix("Backward")
        return NonFinite("backward", name, f"the loss is finite; the backward pass of {name} gives nan")
    finally:
        for handle in handles:
            handle.remove()
    for name, parameter in runs.named_parameters():
        if parameter.grad is not None and not _finite(parameter.grad):
            return NonFinite("backward", name, f"the gradient of {name} is not finite, although no operation gives nan")
    return None


def _watch(name: str, first: list[NonFinite]) -> Callable[..., None]:
    def hook(module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        if first:
            return
        kind = type(module).__name__
        if not all(map(_finite, arguments)):
            first.append(NonFinite("inputs", name, f"what goes into {name} ({kind}) is not finite already"))
        elif not _finite(output):
            first.append(
                NonFinite("forward", name, f"{name} ({kind}) makes it: its inputs are finite, its output is not")
            )

    return hook


def _finite(value: Any) -> bool:
    return not isinstance(value, Tensor) or not value.is_floating_point() or bool(value.isfinite().all())
