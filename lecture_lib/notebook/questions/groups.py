"""03c-groups: each trainable parameter once, with a rate by its part of the model and a decay by its role."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from ..question import Functions, Inputs, PublicQuestion

_LAYERS: dict[str, Callable[[int, bool], nn.Module]] = {
    "Linear": lambda size, bias: nn.Linear(size, size, bias=bias),
    "Conv1d": lambda size, bias: nn.Conv1d(size, size, 3, bias=bias),
    "Embedding": lambda size, bias: nn.Embedding(size, size),
    "LayerNorm": lambda size, bias: nn.LayerNorm(size, bias=bias),
    "LayerNorm over two axes": lambda size, bias: nn.LayerNorm([size, size], bias=bias),
    "BatchNorm1d": lambda size, bias: nn.BatchNorm1d(size),
    "GroupNorm": lambda size, bias: nn.GroupNorm(1, size),
}


def _model(inputs: Inputs) -> nn.Module:
    """A model with a body and a head; a layer that is tied has the weight of the first one of its kind in its part."""
    model = nn.Module()
    for part in ("head", "body") if inputs.get("head_first") else ("body", "head"):
        layers: dict[str, nn.Module] = {}
        firsts: dict[str, nn.Module] = {}
        for layer in inputs[part]:
            built = _LAYERS[str(layer["kind"])](int(layer["size"]), bool(layer["bias"]))
            first = firsts.setdefault(str(layer["kind"]), built)
            if layer["tied"]:
                built.weight = first.weight
            for name, parameter in built.named_parameters():
                if layer["frozen"] in (True, name):
                    parameter.requires_grad_(False)
            layers[str(layer["name"])] = built
        setattr(model, part, nn.ModuleDict(layers))
    return model


def _read(group: dict[str, Any]) -> dict[str, Any]:
    """The group as an optimizer reads it: one for each, because it refuses a parameter that is in two groups."""
    with warnings.catch_warnings():  # of a parameter that is twice in one group, which is counted here
        warnings.simplefilter("ignore")
        return torch.optim.SGD([group]).param_groups[0]


def _groups(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """How often each parameter of the model is listed, and with which rate and decay the first time."""
    model = _model(inputs)
    rates = [inputs[name] for name in ("body_rate", "head_rate", "weight_decay")]
    groups = [_read(dict(group)) for group in functions["make_groups"](model, *rates)]
    listed = [
        (parameter, float(group["lr"]), float(group["weight_decay"]))
        for group in groups
        for parameter in group["params"]
    ]
    times, rate, decay = [], [], []
    for parameter in model.parameters():
        entries = [entry for entry in listed if entry[0] is parameter]
        times.append(len(entries))
        if parameter.requires_grad:
            rate.append(entries[0][1] if entries else -1.0)
            decay.append(entries[0][2] if entries else -1.0)
    return {"times": np.array(times), "rates": np.array(rate), "decays": np.array(decay)}


QUESTION = PublicQuestion(
    id="03c-groups",
    title="a rate and a decay for each parameter",
    functions=("make_groups",),
    parts={"groups": _groups},
    repeatable=("make_groups",),
    ready_made=(
        "lecture_lib.training.parameter_groups",
        "lecture_lib.training.parameter_groups.parameter_groups",
    ),
)
