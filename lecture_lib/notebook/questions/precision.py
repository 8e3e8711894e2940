"""03a-precision: a step under autocast and its dtypes; what FP16 and BF16 make of a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion

TENSORS = ("parameter", "output", "loss", "gradient", "momentum")
FORMATS = ("float16", "bfloat16")
STALE = 3.0  # what an earlier step has left in every entry of .grad


def _mean_square(output: Tensor, _: Tensor) -> Tensor:
    """A loss in the output's own dtype: no function in it that autocast knows."""
    return (output * output).mean()


LOSSES = {"mean squared error": nn.MSELoss(), "own": _mean_square}


def _stepped(functions: Functions, inputs: Inputs) -> tuple[nn.Linear, Any]:
    weight = torch.tensor(inputs["weight"])
    model = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    with torch.no_grad():
        model.weight.copy_(weight)
    model.to(getattr(torch, inputs["stored"]))
    model.weight.grad = torch.full_like(model.weight, STALE)
    optimizer = torch.optim.SGD(model.parameters(), lr=inputs["learning_rate"], momentum=0.9)
    x, y = (torch.tensor(inputs[name], dtype=_data_dtype(inputs)) for name in ("x", "y"))
    return model, functions["autocast_step"](model, optimizer, LOSSES[inputs["loss"]], x, y)


def _data_dtype(inputs: Inputs) -> torch.dtype:
    return torch.float64 if inputs["stored"] == "float64" else torch.float32


def _step(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"weight": _stepped(functions, inputs)[0].weight.detach().double()}


def _dtypes(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    found = _stepped(functions, inputs)[1]
    if not isinstance(found, dict):
        raise TypeError(f"autocast_step returned {found!r:.80}, not a dict of dtypes")
    return {str(name): str(dtype).removeprefix("torch.") for name, dtype in found.items()}


def _fate(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {
        name: [str(functions["fate"](float(number), getattr(torch, name))) for number in inputs["numbers"]]
        for name in FORMATS
    }


_WEIGHT = np.array([[1.0, -2.0, 1.0], [2.0, 1.0, -1.0]], dtype=np.float32)
_LOST = np.float32(2**-10)  # BF16 keeps 8 binary digits: next to 1 this one is rounded away
_INPUTS: dict[str, Any] = {
    "weight": _WEIGHT + _LOST,
    "stored": "float32",
    "loss": "mean squared error",
    "learning_rate": 0.125,
    "x": np.array([[1.0, 0.0, 2.0], [-1.0, 1.0, 1.0], [2.0, 1.0, 0.0], [0.0, 1.0, -1.0]]),
    "y": np.array([[1.0, 0.0], [-2.0, 1.0], [0.0, 3.0], [-1.0, 2.0]]),
    "numbers": np.array([1.0, 0.1, 65504.0, -65510.0, 65520.0, 2**-24, 2**-26, 1e-6], dtype=np.float32),
}
# By hand: outputs [3, 0], [-2, -2], [0, 5], [-3, 2] of the rounded weights, errors [2, 0], [0, -3], [0, 2], [-2, 0].
_GRADIENT = np.array([[0.5, -0.5, 1.5], [1.75, -0.25, -0.75]])
# The own loss has no target: the gradient is the outputs' mean product with the inputs.
_OWN_GRADIENT = np.array([[1.25, -1.25, 1.75], [3.0, 1.25, -1.0]])
_EXPECTED_FATE = {
    "float16": ["exact", "rounded", "exact", "rounded", "overflow", "exact", "underflow", "rounded"],
    "bfloat16": ["exact", "rounded", "rounded", "rounded", "rounded", "exact", "exact", "rounded"],
}
_USUAL = dict(zip(TENSORS, ["float32", "bfloat16", "float32", "float32", "float32"], strict=True))


def _all(dtype: str) -> dict[str, str]:
    return dict.fromkeys(TENSORS, dtype)


def _after(gradient: Any) -> dict[str, Any]:
    return {"weight": _INPUTS["weight"].astype(np.float64) - 0.125 * gradient}


def _fates(format_name: str, expected: dict[str, list[str]], *changes: tuple[int, str]) -> dict[str, Any]:
    """The right fates in one format, but for those that a mistake changes."""
    shown = list(expected[format_name])
    for place, fate in changes:
        shown[place] = fate
    return {"fate": {format_name: shown}}


_LARGE = np.array([0.0, 257.0, -70000.0, 3e38, 3.4e38, 1e-30, -0.5, 1.0009765625], dtype=np.float32)
_EXPECTED_LARGE = {
    "float16": ["exact", "exact", "overflow", "overflow", "overflow", "underflow", "exact", "exact"],
    "bfloat16": ["exact", "rounded", "rounded", "rounded", "overflow", "rounded", "exact", "rounded"],
}


QUESTION = PublicQuestion(
    id="03a-precision",
    title="a step under autocast, and the two 16-bit formats",
    functions=("autocast_step", "fate"),
    parts={"step": _step, "dtypes": _dtypes, "fate": _fate},
    cases=(
        PublicCase(
            name="weights in FP32; numbers at FP16's limits",
            inputs=_INPUTS,
            expected={"step": _after(_GRADIENT), "dtypes": _USUAL, "fate": _EXPECTED_FATE},
            mistakes={
                "stale-gradients": {"step": _after(_GRADIENT + STALE)},
                "never-steps": {"step": {"weight": _INPUTS["weight"].astype(np.float64)}},
                "model-converted": {"step": {"weight": _WEIGHT - 0.125 * _GRADIENT}, "dtypes": _all("bfloat16")},
                "no-autocast": {"dtypes": _all("float32")},
                "constant-answer": {"fate": dict.fromkeys(FORMATS, ["exact"] * 8)},
                "one-limit-for-both": {"fate": {"bfloat16": _EXPECTED_FATE["float16"]}},
                "largest-is-limit": _fates("float16", _EXPECTED_FATE, (3, "overflow")),
                "tiny-is-limit": _fates("float16", _EXPECTED_FATE, (5, "underflow"), (7, "underflow")),
                "close-is-exact": _fates("float16", _EXPECTED_FATE, (1, "exact"), (3, "exact")),
            },
        ),
        PublicCase(
            name="the mean of squares as loss; large numbers",
            inputs={**_INPUTS, "loss": "own", "numbers": _LARGE},
            expected={
                "step": _after(_OWN_GRADIENT),
                "dtypes": {**_USUAL, "loss": "bfloat16"},
                "fate": _EXPECTED_LARGE,
            },
            mistakes={
                "by-heart": {"dtypes": _USUAL},
                "no-autocast": {"dtypes": _all("float32")},
                "positive-only": _fates("float16", _EXPECTED_LARGE, (2, "rounded")),
                "bf16-never-overflows": _fates("bfloat16", _EXPECTED_LARGE, (4, "rounded")),
            },
        ),
        PublicCase(
            name="weights stored in BF16",
            inputs={**_INPUTS, "stored": "bfloat16"},
            expected={"dtypes": {**_all("bfloat16"), "loss": "float32"}},
            mistakes={"by-heart": {"dtypes": _USUAL}},
        ),
        PublicCase(
            name="weights in FP64, which autocast leaves alone",
            inputs={**_INPUTS, "stored": "float64", "weight": _WEIGHT},
            expected={"dtypes": _all("float64"), "step": {"weight": _WEIGHT - 0.125 * _GRADIENT}},
            mistakes={"by-heart": {"dtypes": _USUAL}, "model-converted": {"dtypes": _all("bfloat16")}},
        ),
    ),
    misconceptions={
        "no-autocast": Misconception(
            "the output has the weights' dtype: the forward pass did not run under autocast",
            "which lines stand inside the autocast context, and which dtype it is given",
        ),
        "model-converted": Misconception(
            "the model itself was converted: the weights have lost all digits that BF16 does not keep",
            "what autocast converts, and what it leaves as it is stored",
        ),
        "stale-gradients": Misconception(
            "the gradients of the step before were still there and were added",
            "what has to happen to .grad before backward()",
        ),
        "never-steps": Misconception("the weights did not move", "whether optimizer.step() is reached"),
        "by-heart": Misconception(
            "the dtypes are those of the usual case, whatever model and loss were given",
            "the .dtype of each tensor, after the step that made it",
        ),
        "constant-answer": Misconception(
            "every number was called exact, in both formats", "what a conversion makes of 0.1, and of 65,520"
        ),
        "one-limit-for-both": Misconception(
            "BF16 was given the limits of FP16; it has the exponents of FP32",
            "torch.finfo of both formats, or what a conversion gives",
        ),
        "largest-is-limit": Misconception(
            "a number a little above the largest one was called an overflow; it is rounded down to the largest",
            "what the conversion of 65,510 to FP16 gives",
        ),
        "tiny-is-limit": Misconception(
            "numbers below finfo.tiny were called an underflow; there are smaller ones, with fewer digits",
            "what the conversion of 1e-6 to FP16 gives, and what finfo calls smallest_normal",
        ),
        "close-is-exact": Misconception(
            "a number that was rounded a little was called exact",
            "whether old and new number are compared for equality",
        ),
        "positive-only": Misconception(
            "a large negative number was not seen to overflow", "what -70,000 becomes, and its sign"
        ),
        "bf16-never-overflows": Misconception(
            "3.4e38 was said to fit into BF16; its range is large, not infinite",
            "torch.finfo(torch.bfloat16).max",
        ),
    },
)
