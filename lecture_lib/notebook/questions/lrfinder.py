"""03a-lrfinder: sweep the learning rate, put the model back, and choose a rate from the curve by a stated rule."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..compare import agree
from ..question import Functions, Inputs, PublicQuestion
from .branches import Tracker, changes


class Centred(nn.Module):
    """A linear layer [B, F] -> [B, 1] on inputs without their mean.

    The mean is the batch's in train mode, and in eval mode a buffer of a module three levels below. One parameter is
    frozen.
    """

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        weight, bias = torch.tensor(inputs["weight"]), torch.tensor(inputs["bias"])
        self.track = nn.Sequential(nn.Sequential(Tracker(torch.tensor(inputs["running_mean"]), 0.1)))
        self.linear = nn.utils.skip_init(nn.Linear, weight.shape[1], 1, dtype=torch.float64)
        self.frozen = nn.Parameter(torch.zeros(1, dtype=torch.float64), requires_grad=False)
        with torch.no_grad():
            self.linear.weight.copy_(weight)
            self.linear.bias.copy_(bias)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [B, 1] for inputs [B, F]."""
        tracker = next(module for module in self.modules() if isinstance(module, Tracker))
        x = self.track(x)
        mean = x.mean(0) if self.training and tracker.training else tracker.running_mean
        outputs: Tensor = self.linear(x - mean) + self.frozen
        return outputs


class _Loss(nn.Module):
    """Squared errors, and a penalty on large outputs; it keeps every loss that was computed, whatever was returned."""

    def __init__(self, penalty: float) -> None:
        super().__init__()
        self.penalty = penalty
        self.computed: list[float] = []

    def forward(self, outputs: Tensor, labels: Tensor) -> Tensor:
        loss = (outputs - labels).square().mean() + self.penalty * outputs.square().mean()
        self.computed.append(loss.item())
        return loss


def _model(inputs: Inputs) -> Centred:
    """A model in the case's modes, with gradients that are left from before, the frozen parameter's too."""
    model = Centred(inputs)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    for module, training in zip(model.modules(), inputs["modes"], strict=True):
        module.training = bool(training)
    return model


def _batches(inputs: Inputs) -> list[tuple[Tensor, Tensor]]:
    return [(torch.tensor(x), torch.tensor(y)) for x, y in zip(inputs["x"], inputs["y"], strict=True)]


def _run(functions: Functions, inputs: Inputs) -> tuple[Centred, list[float], Any]:
    """The model after a sweep, the losses that were computed, and what was returned."""
    model, loss_fn = _model(inputs), _Loss(inputs["penalty"])
    ends = inputs["start"], inputs["stop"], inputs["steps"]
    result = functions["run_sweep"](model, _batches(inputs), loss_fn, *ends)
    return model, loss_fn.computed, result


def _sweep(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    rates, losses = _run(functions, inputs)[2]
    return {"log10_rates": _log10(rates), "losses": _finite(losses)}


def _restored(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    model, computed, _ = _run(functions, inputs)
    weights = [model.linear.weight, model.linear.bias]
    return {**changes(_model(inputs), model), "weights": weights, "trained": trained(computed, inputs)}


def _computed(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"losses": _finite(_run(functions, inputs)[1])}


def trained(computed: Iterable[float], inputs: Inputs) -> str:
    """Whether the computed losses are those of a model that learns: else there was nothing to put back."""
    losses = _finite(computed)
    for mode in (True, False):
        model, loss_fn = _model(inputs).train(mode), _Loss(inputs["penalty"])
        for (x, y), _ in zip(cycle(_batches(inputs)), losses, strict=False):
            loss_fn(model(x), y)
        if len(losses) < 2 or agree(_finite(loss_fn.computed), losses, 1e-9):
            return "no"
    return "yes"


def _log10(rates: Iterable[Any]) -> np.ndarray:
    """Rates differ by factors, so they are compared by their logarithms."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.log10(np.asarray([float(rate) for rate in rates], dtype=np.float64))


def _finite(numbers: Iterable[Any]) -> np.ndarray:
    """Numbers, with -1 for one that is not finite: NaN equals nothing, not even itself."""
    values = np.asarray([float(number) for number in numbers], dtype=np.float64)
    return np.where(np.isfinite(values), values, -1.0)


QUESTION = PublicQuestion(
    id="03a-lrfinder",
    title="sweep the learning rate",
    functions=("run_sweep",),
    parts={"sweep": _sweep, "restored": _restored, "computed": _computed},
    ready_made=(
        "lecture_lib.training.find_lr",
        "lecture_lib.training.lr_finder.sweep_rates",
        "lecture_lib.training._run.preserve.unchanged",
    ),
    relative_tolerance=1e-5,  # rates and losses kept in float32 are right too
)
