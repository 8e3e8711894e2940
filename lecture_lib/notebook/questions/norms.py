"""03d-norms: batch, layer, group and RMS normalisation, and the running statistics of the first."""

from __future__ import annotations

from typing import Any

import torch

from ..question import Functions, Inputs, PublicQuestion
from .float64 import in_float64


def _tensors(inputs: Inputs, *names: str) -> list[torch.Tensor]:
    return [torch.tensor(inputs[name]) for name in names]


def _batch(training: bool) -> Any:
    def observe(functions: Functions, inputs: Inputs) -> dict[str, Any]:
        x, weight, bias, mean, variance = _tensors(inputs, "batch", "weight", "bias", "running_mean", "running_var")
        result = functions["batch_norm"](
            x, weight, bias, mean, variance, inputs["momentum"], inputs["eps"], training=training
        )
        output, mean, variance = result
        return {"output": in_float64(output), "mean": in_float64(mean), "variance": in_float64(variance)}

    return observe


def _layer(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    x, weight, bias = _tensors(inputs, "rows", "weight", "bias")
    return {"output": in_float64(functions["layer_norm"](x, weight, bias, inputs["eps"]))}


def _group(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    x, weight, bias = _tensors(inputs, "batch", "weight", "bias")
    return {"output": in_float64(functions["group_norm"](x, inputs["groups"], weight, bias, inputs["eps"]))}


def _rms(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    x, weight = _tensors(inputs, "rows", "weight")
    return {"output": in_float64(functions["rms_norm"](x, weight, inputs["eps"]))}


QUESTION = PublicQuestion(
    id="03d-norms",
    title="four normalisations",
    functions=("batch_norm", "layer_norm", "group_norm", "rms_norm"),
    may_overwrite=("batch_norm", "layer_norm", "group_norm", "rms_norm"),
    parts={"train": _batch(True), "evaluation": _batch(False), "layer": _layer, "group": _group, "rms": _rms},
    ready_made=(
        *(f"torch.nn.functional.{norm}_norm" for norm in ("batch", "layer", "group", "rms", "instance")),
        *(f"torch.nn.{norm}" for norm in ("BatchNorm1d", "LayerNorm", "GroupNorm", "RMSNorm", "InstanceNorm1d")),
        *(f"torch.{norm}_norm" for norm in ("batch", "layer", "group", "rms", "native_layer")),
    ),
)
