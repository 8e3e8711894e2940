"""03d-averages: averages of weights, and the running statistics that belong to averaged weights."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ..question import Functions, Inputs, PublicQuestion
from .activations import built_layer as usual_layer
from .float64 import in_float64


class TwiceInTraining(nn.Module):
    """Doubles its input in training mode, as another layer of a model may do something else there."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[N, features] to the same shape."""
        return 2 * x if self.training else x


def built_layer(layer: Mapping[str, Any]) -> nn.Module:
    """A layer in float64 with the given weights."""
    return TwiceInTraining() if layer["kind"] == "twice in training" else usual_layer(layer)


def _ema(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    weights = [torch.tensor(weight) for weight in inputs["weights"]]
    averages = functions["moving_averages"](weights, inputs["decay"])
    return {"values": [in_float64(average) for average in averages]}


def _swa(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    weights = [torch.tensor(weight) for weight in inputs["weights"]]
    return {"value": in_float64(functions["mean_weights"](weights))}


def _statistics(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    layers = [(str(layer["name"]), built_layer(layer)) for layer in inputs["layers"]]
    if inputs["nested"]:
        layers = [("block", nn.Sequential(OrderedDict(layers[:3]))), *layers[3:]]
    model = nn.Sequential(OrderedDict(layers)).train(bool(inputs["training"]))
    functions["refresh_statistics"](model, [torch.tensor(batch) for batch in inputs["batches"]])
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm1d)]
    return {
        "means": [in_float64(module.running_mean) for module in norms],
        "variances": [in_float64(module.running_var) for module in norms],
        "modes": [float(module.training) for module in model.modules()],
        "momenta": [-1.0 if module.momentum is None else float(module.momentum) for module in norms],
    }


QUESTION = PublicQuestion(
    id="03d-averages",
    title="averaged weights",
    functions=("moving_averages", "mean_weights", "refresh_statistics"),
    repeatable=("moving_averages", "mean_weights"),
    parts={"ema": _ema, "swa": _swa, "statistics": _statistics},
    ready_made=(
        "torch.optim.swa_utils.update_bn",
        "torch.optim.swa_utils.AveragedModel",
        "lecture_lib.training.ExponentialMovingAverage",
    ),
)
