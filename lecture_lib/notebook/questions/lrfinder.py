"""03a-lrfinder: sweep the learning rate, put the model back, and choose a rate from the curve by a stated rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..question import Functions, Inputs, PublicQuestion
from .lrfinder_cases import CASES
from .lrfinder_texts import MISCONCEPTIONS


class Centre(nn.Module):
    """Takes the mean from inputs [B, F]: the batch's in train mode, a running mean, its buffer, in eval mode."""

    def __init__(self, running_mean: Tensor) -> None:
        super().__init__()
        self.running_mean: Tensor
        self.register_buffer("running_mean", running_mean)

    def forward(self, x: Tensor) -> Tensor:
        """Inputs [B, F] without their mean."""
        if self.training:
            self.running_mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return x - (x.mean(0) if self.training else self.running_mean)


def _model(inputs: Inputs) -> nn.Module:
    weight, bias = torch.tensor(inputs["weight"]), torch.tensor(inputs["bias"])
    linear = nn.Linear(weight.shape[1], 1, dtype=torch.float64)
    with torch.no_grad():
        linear.weight.copy_(weight)
        linear.bias.copy_(bias)
    model = nn.Sequential(Centre(torch.tensor(inputs["running_mean"])), linear, nn.Identity())
    for module, training in zip(model.modules(), inputs["modes"], strict=True):
        module.training = bool(training)
    return model


def _run(functions: Functions, inputs: Inputs, loss_fn: Callable[..., Tensor]) -> tuple[nn.Module, Any]:
    model = _model(inputs)
    batches = [(torch.tensor(x), torch.tensor(y)) for x, y in zip(inputs["x"], inputs["y"], strict=True)]
    found = functions["run_sweep"](model, batches, loss_fn, inputs["start"], inputs["stop"], inputs["steps"])
    return model, found


def _sweep(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    rates, losses = _run(functions, inputs, nn.MSELoss())[1]
    return {"log10_rates": _log10(rates), "losses": np.asarray([float(loss) for loss in losses])}


def _restored(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    model, _ = _run(functions, inputs, nn.MSELoss())
    return {
        "weights": [parameter for _, parameter in model.named_parameters()],
        "running_mean": model[0].running_mean,  # type: ignore[index]  # a Sequential
        "modes": [module.training for module in model.modules()],
    }


def _computed(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """Every loss that was computed, in order, whatever was returned: whether weights moved shows in it."""
    seen: list[float] = []

    def loss_fn(outputs: Tensor, labels: Tensor) -> Tensor:
        loss = nn.functional.mse_loss(outputs, labels)
        seen.append(loss.item())
        return loss

    _run(functions, inputs, loss_fn)
    return {"losses": np.asarray(seen)}


def _choice(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    rate = functions["choose_rate"](list(inputs["curve_rates"]), list(inputs["curve_losses"]))
    return {"log10_rate": None if rate is None else _log10([rate])[0]}


def _log10(rates: Iterable[Any]) -> np.ndarray:
    """Rates differ by factors, so they are compared by their logarithms."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.log10(np.asarray([float(rate) for rate in rates], dtype=np.float64))


QUESTION = PublicQuestion(
    id="03a-lrfinder",
    title="sweep the learning rate and choose one",
    functions=("run_sweep", "choose_rate"),
    parts={"sweep": _sweep, "restored": _restored, "choice": _choice, "computed": _computed},
    ready_made=(
        "lecture_lib.training.find_lr",
        "lecture_lib.training.lr_finder.sweep_rates",
        "lecture_lib.training._run.preserve.unchanged",
    ),
    relative_tolerance=1e-4,
    cases=CASES,
    misconceptions=MISCONCEPTIONS,
)
