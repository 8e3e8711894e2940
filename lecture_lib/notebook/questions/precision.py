"""03a-precision: a step under autocast and its dtypes; what FP16 and BF16 make of a number."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..question import Functions, Inputs, PublicQuestion

TENSORS = ("parameter", "output", "loss", "gradient", "momentum")
FORMATS = ("float16", "bfloat16")
STALE = 3.0  # what an earlier step has left in every entry of .grad
MOMENTUM = 0.5  # of the optimizer; a power of two keeps every number exact


def _mean_squared_error(output: Tensor, y: Tensor) -> Tensor:
    """Under autocast it is computed in FP32, elsewhere in the dtype of the output."""
    return nn.functional.mse_loss(output, y.to(output.dtype))


def _mean_square(output: Tensor, _: Tensor) -> Tensor:
    """A loss in the output's own dtype: no function in it that autocast knows."""
    return (output * output).mean()


LOSSES = {"mean squared error": _mean_squared_error, "mean of squares": _mean_square}


def _stepped(functions: Functions, inputs: Inputs, after_another: bool = False) -> tuple[nn.Linear, Any]:
    """The model after a step and what it returned; `after_another`: the model has taken a step from other weights."""
    dtype = getattr(torch, inputs["stored"])
    weight, x, y = (torch.tensor(inputs[name], dtype=dtype) for name in ("weight", "x", "y"))
    model = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=inputs["learning_rate"], momentum=MOMENTUM)
    if after_another:
        _set(model, -weight)
        functions["autocast_step"](model, optimizer, LOSSES[inputs["loss"]], x, y)
        optimizer.state.clear()
        if torch.is_autocast_enabled("cpu"):  # is observed after the second step; here it would cast old weights
            torch.set_autocast_enabled("cpu", False)
            torch.clear_autocast_cache()
    _set(model, weight)
    model.weight.grad = torch.full_like(model.weight, STALE)
    if inputs["momentum"]:
        # As in the middle of a run: a step from nothing would not show what momentum adds.
        optimizer.state[model.weight]["momentum_buffer"] = torch.full_like(weight, inputs["momentum"])
    return model, functions["autocast_step"](model, optimizer, LOSSES[inputs["loss"]], x, y)


def _set(model: nn.Linear, weight: Tensor) -> None:
    with torch.no_grad():
        model.weight.copy_(weight)


def _step(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    weight = _stepped(functions, inputs, after_another=True)[0].weight.detach().double()
    return {"weight": weight, "autocast afterwards": "on" if torch.is_autocast_enabled("cpu") else "off"}


def _dtypes(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    dtypes = _stepped(functions, inputs)[1]
    if not isinstance(dtypes, dict):
        raise TypeError(f"autocast_step returned {dtypes!r:.80}, not a dict of dtypes")
    return {str(name): str(dtype).removeprefix("torch.") for name, dtype in dtypes.items()}


def _fate(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {
        name: [str(functions["fate"](float(number), getattr(torch, name))) for number in inputs["numbers"]]
        for name in FORMATS
    }


QUESTION = PublicQuestion(
    id="03a-precision",
    title="a step under autocast, and the two 16-bit formats",
    functions=("autocast_step", "fate"),
    parts={"step": _step, "dtypes": _dtypes, "fate": _fate},
    repeatable=("fate",),
)
