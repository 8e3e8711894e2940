"""03a-graph: the values and the gradients of two small graphs, by formulas worked out by hand."""

from __future__ import annotations

from typing import Any

from ..question import Functions, Inputs, PublicQuestion


def _square(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    values, gradients = functions["square_graph"](inputs["w"], inputs["x"], inputs["b"])
    return {"values": list(values), "gradients": list(gradients)}


def _relu(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    values, gradients = functions["relu_graph"](inputs["w1"], inputs["w2"], inputs["x"], inputs["y"])
    return {"values": list(values), "gradients": list(gradients)}


QUESTION = PublicQuestion(
    id="03a-graph",
    title="trace a graph by hand",
    functions=("square_graph", "relu_graph"),
    parts={"square": _square, "relu": _relu},
    repeatable=("square_graph", "relu_graph"),
    relative_tolerance=1e-5,  # float32 is precise enough
)
