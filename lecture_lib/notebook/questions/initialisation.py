"""03d-init: fans, the scale of initial weights, an orthogonal matrix, and the mean square through layers."""

from __future__ import annotations

from typing import Any

import torch

from ..question import Functions, Inputs, PublicQuestion


def _fans(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    fan_in, fan_out = functions["fans"](tuple(inputs["shape"]))
    return {"value": [float(fan_in), float(fan_out)]}


def _scale(scheme: str) -> Any:
    def observe(functions: Functions, inputs: Inputs) -> dict[str, Any]:
        return {"value": float(functions["weight_std"](tuple(inputs["shape"]), scheme, inputs["gain"]))}

    return observe


def _bound(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"value": float(functions["uniform_bound"](inputs["deviation"]))}


def _orthogonal(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """What holds for every right result: the products of its shorter side, and that it spans what the matrix spans."""
    matrix = torch.tensor(inputs["matrix"])
    result = torch.as_tensor(functions["orthogonal"](matrix.clone(), inputs["gain"])).double()
    if result.shape != matrix.shape:
        raise ValueError(f"orthogonal() returned the shape {list(result.shape)} for a matrix {list(matrix.shape)}")
    if matrix.shape[0] > matrix.shape[1]:
        matrix, result = matrix.T, result.T
    outside = result - result @ torch.linalg.pinv(matrix) @ matrix
    return {"gram": result @ result.T, "outside": float(bool((outside.abs() > 1e-5 * inputs["gain"]).any()))}


def _moments(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    layers = [
        (tuple(shape), deviation) for shape, deviation in zip(inputs["shapes"], inputs["deviations"], strict=True)
    ]
    values = functions["mean_squares"](inputs["start"], layers, rectified=inputs["rectified"])
    return {"value": [float(value) for value in values]}


QUESTION = PublicQuestion(
    id="03d-init",
    title="the scale of initial weights",
    functions=("fans", "weight_std", "uniform_bound", "orthogonal", "mean_squares"),
    repeatable=("fans", "weight_std", "uniform_bound", "orthogonal", "mean_squares"),
    parts={
        "fans": _fans,
        "xavier": _scale("xavier"),
        "he": _scale("he"),
        "bound": _bound,
        "orthogonal": _orthogonal,
        "moments": _moments,
    },
    ready_made=("torch.nn.init._calculate_fan_in_and_fan_out", "torch.nn.init.orthogonal_", "torch.nn.init.orthogonal"),
)
