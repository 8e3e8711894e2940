"""03d-activations: what each activation gives for a batch, and what the call leaves in the model."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from ..question import Functions, Inputs, PublicQuestion

BATCHES = 7
"""How many batches a norm has seen, as one in a trained network has."""


@torch.no_grad()
def built_layer(layer: Mapping[str, Any]) -> nn.Module:
    """A layer in float64 with the given weights."""
    kind = str(layer["kind"])
    if kind in ("relu", "tanh"):
        return nn.ReLU() if kind == "relu" else nn.Tanh()
    state = {
        name: torch.tensor(layer[name]) for name in ("weight", "bias", "running_mean", "running_var") if name in layer
    }
    size = len(state["bias"])
    built: nn.Module
    if kind == "norm":
        built = nn.BatchNorm1d(size, momentum=layer.get("momentum", 0.1), dtype=torch.float64)
    elif kind == "linear":
        built = nn.Linear(state["weight"].shape[1], size, dtype=torch.float64)
    else:
        built = nn.Conv1d(state["weight"].shape[1], size, 1, dtype=torch.float64)
        state["weight"] = state["weight"][..., None]
    built.load_state_dict(state, strict=False)
    if isinstance(built, nn.BatchNorm1d):
        assert built.num_batches_tracked is not None
        built.num_batches_tracked.fill_(BATCHES)
    return built


def _statistics(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    layers = OrderedDict((str(layer["name"]), built_layer(layer)) for layer in inputs["layers"])
    model = nn.Sequential(layers).train(bool(inputs["training"]))
    if inputs["own_hook"]:
        for module in model.modules():
            module.register_forward_hook(lambda module, arguments, output: None)
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    statistics = {
        name: dict(measures)
        for name, measures in functions["activation_statistics"](model, torch.tensor(inputs["x"])).items()
    }
    activations = [name for name, layer in layers.items() if isinstance(layer, nn.ReLU | nn.Tanh)]

    def measured(measure: str, names: list[str] = activations) -> np.ndarray:
        return np.array([float(statistics.get(name, {}).get(measure, -1.0)) for name in names])

    moved = {True: 0.0, False: 0.0}  # running statistics, and counts of batches: the largest change
    for name, buffer in model.named_buffers():
        kind = buffer.is_floating_point()
        moved[kind] = max(moved[kind], float((buffer - before[name]).abs().max()))
    return {
        "names": sorted(map(str, statistics)),
        **{measure: measured(measure) for measure in ("mean", "std", "saturated")},
        "dead": measured("dead", [name for name in activations if isinstance(layers[name], nn.ReLU)]),
        "hooks": float(sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())),
        "modes": [float(module.training) for module in model.modules()],
        "moved": np.array(list(moved.values())),
    }


QUESTION = PublicQuestion(
    id="03d-activations",
    title="statistics of activations",
    functions=("activation_statistics",),
    parts={"statistics": _statistics},
    ready_made=(
        "lecture_lib.training.activation_statistics",
        "lecture_lib.training._run.activations.activation_statistics",
    ),
)
