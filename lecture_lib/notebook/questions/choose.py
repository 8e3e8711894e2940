"""03c-choose: loss, metric, optimizer and schedule for a task, and a model that was trained with such a choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..question import Functions, Inputs, PublicQuestion

FITS, REACHED = "fits the task", "better than the limit"
NOT_REACHED, WRONG_SHAPE = "worse than the limit", "outputs of another shape, or not finite"
DECISIONS = ("loss", "metric", "optimizer", "schedule")


def fit(name: Any, acceptable: Sequence[str]) -> str:
    """Whether a decision is one of the acceptable ones; otherwise the decision itself."""
    return FITS if isinstance(name, str) and name in acceptable else str(name)[:60]


def quality(outputs: Any, target: str, y: np.ndarray) -> float:
    """The accuracy, or for numbers the coefficient of determination; nan where the shape is wrong.

    Args:
        outputs: [N], [N, 1] or, for classes, [N, C].
        target: "number", "one of two" or "one of many".
        y: numbers or class indices, [N].

    """
    array = np.asarray(outputs)
    if (
        array.dtype.kind not in "iuf"
        or array.ndim not in (1, 2)
        or len(array) != len(y)
        or not np.isfinite(array).all()
    ):
        return np.nan
    columns = array.shape[1] if array.ndim == 2 else 1
    if target == "number":
        error = y - array.reshape(len(y), columns)[:, 0]
        return 1 - float((error**2).mean() / y.var()) if columns == 1 else np.nan
    if target == "one of two" and columns == 1:
        return float(((array.reshape(-1) > 0) == (y == 1)).mean())
    return float((array.argmax(axis=1) == y).mean()) if columns == y.max() + 1 else np.nan


def reached(outputs: Any, target: str, y: np.ndarray, limit: float) -> str:
    """Whether the outputs of a model are better than a limit, in words: many models are right."""
    found = quality(outputs, target, y)
    if np.isnan(found):
        return WRONG_SHAPE
    return REACHED if found > limit else NOT_REACHED


def _task(inputs: Inputs) -> dict[str, Any]:
    task: Mapping[str, Any] = inputs["task"]
    return {name: value if isinstance(value, str) else bool(value) for name, value in task.items()}


def _decision(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    chosen = functions["choose"](_task(inputs))
    names = {name: chosen[name] for name in DECISIONS}
    return names if "fits" not in inputs else {name: fit(names[name], inputs["fits"][name]) for name in DECISIONS}


def _model(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """The outputs of the student's model for rows that it has not seen."""
    train_model = functions["train_model"]
    if "x" not in inputs:
        return {}
    x, held_out = (torch.tensor(inputs[name] / 100, dtype=torch.float32) for name in ("x", "held_out"))
    y = torch.tensor(inputs["y"])
    model = train_model(_task(inputs), x, y.float() if inputs["task"]["target"] == "number" else y.long())
    with torch.no_grad():
        outputs = model(held_out)
    if "labels" not in inputs:
        return {"score": outputs}
    return {"score": reached(outputs.numpy(), inputs["task"]["target"], inputs["labels"], inputs["limit"])}


QUESTION = PublicQuestion(
    id="03c-choose",
    title="choose a recipe for a task",
    functions=("choose", "train_model"),
    parts={"decision": _decision, "model": _model},
    repeatable=("choose",),
    look_at="the row of the table for this task",
    told={"decision": "fits", "model": "good enough"},
)
