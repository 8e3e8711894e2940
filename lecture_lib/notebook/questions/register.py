"""03a-register: a module whose layers and temperature are parameters and whose running mean is a buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion


def _made(functions: Functions, inputs: Inputs, *, other: bool = False) -> nn.Module:
    """The student's module; with `other`, one of the same shapes and other values."""
    layers: list[nn.Module] = []
    for weight, bias in zip(inputs["weights"], inputs["biases"], strict=True):
        layers += [nn.ReLU()] if layers else []
        layers.append(nn.Linear(weight.shape[1], weight.shape[0]))
        with torch.no_grad():
            layers[-1].weight.copy_(torch.tensor(weight + other))  # type: ignore[operator]
            layers[-1].bias.copy_(torch.tensor(bias + other))  # type: ignore[operator]
    mean = torch.tensor(inputs["mean"] + np.float32(other))
    module = functions["Scaled"](layers, mean, float(inputs["temperature"]) + other)
    if not isinstance(module, nn.Module):
        raise TypeError(f"Scaled(...) is a {type(module).__name__}, not an nn.Module")
    return module


def _tensors(module: nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def _ordered(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Flat and in the order of size and values: under which name a tensor is registered does not matter."""
    return [
        torch.tensor(values) for values in sorted((t.flatten().tolist() for t in tensors), key=lambda v: (len(v), v))
    ]


def _registered(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """What is found as a parameter and, after one forward pass in training mode, as a buffer."""
    module = _made(functions, inputs).train()
    parameters = _ordered(list(module.parameters()))
    trainable = sum(parameter.requires_grad for parameter in module.parameters())
    module(torch.tensor(inputs["x"]))
    buffers = _ordered(list(module.buffers()))
    return {
        "parameter_tensors": len(parameters),
        "buffer_tensors": len(buffers),
        "trainable_tensors": trainable,
        "parameters": parameters,
        "buffers": buffers,
    }


def _state(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """Another module, once it has loaded the first one's state_dict: what it computes in eval mode."""
    module, restored = _made(functions, inputs), _made(functions, inputs, other=True).eval()
    state = module.state_dict()
    restored.load_state_dict(state)
    # By address: a tensor that is registered under two names is one tensor.
    owned, saved = ({t.data_ptr() for t in tensors} for tensors in (_tensors(module), state.values()))
    return {"unsaved_tensors": len(owned - saved), "restored": restored(torch.tensor(inputs["x"]))}


def _moves(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """What `.double()` and `.to("meta")` took along, and what the module computes in float64.

    It is not run on the meta device: PyTorch imports its compiler for that, which takes seconds.
    """
    module, x = _made(functions, inputs).eval().double(), torch.tensor(inputs["x"])
    dtypes = [str(tensor.dtype).removeprefix("torch.") for tensor in _tensors(module)]
    output = module(x.double())
    module.to("meta")
    return {
        "dtypes": dtypes,
        "devices": [tensor.device.type for tensor in _tensors(module)],
        "output": output,
    }


def _floats(*numbers: Any) -> np.ndarray:
    return np.array(numbers, dtype=np.float32)


# One layer and two; the numbers are small and exact in binary, so that every value can be checked by hand.
_ONE = {
    "weights": [_floats([1, 2], [0, -1], [3, 1])],
    "biases": [_floats(1, 0, -2)],
    "mean": _floats(1, -1),
    "temperature": 2.0,
    "x": _floats([3, 1], [-1, 0]),
}
_TWO = {
    "weights": [_floats([1, 0], [-1, 1], [2, 1]), _floats([1, 0, -1])],
    "biases": [_floats(0, 1, -1), _floats(0.5)],
    "mean": _floats(0.5, 0),
    "temperature": 0.5,
    "x": _floats([1.5, 2]),
}


def _counts(parameters: int, buffers: int) -> dict[str, dict[str, int]]:
    return {"registered": {"parameter_tensors": parameters, "buffer_tensors": buffers}}


def _mistakes(parameters: int, buffer_from_zero: np.ndarray) -> dict[str, dict[str, dict[str, Any]]]:
    """How each mistake shows in a module that should have so many parameters."""
    return {
        "nothing-registered": _counts(0, 0),
        "layers-hidden": _counts(1, 1),
        "temperature-plain": _counts(parameters - 1, 1),
        "temperature-as-buffer": _counts(parameters - 1, 2),
        "temperature-frozen": {
            "registered": {"parameter_tensors": parameters, "trainable_tensors": parameters - 1},
        },
        "mean-plain": _counts(parameters, 0),
        "mean-as-parameter": _counts(parameters + 1, 0),
        "mean-not-saved": {"state": {"unsaved_tensors": 1}},
        "values-ignored": {"registered": {"buffers": [buffer_from_zero]}},
    }


def _expected(parameters: list[np.ndarray], buffer: np.ndarray, output: np.ndarray) -> dict[str, Any]:
    count = len(parameters)
    return {
        "registered": {
            "parameter_tensors": count,
            "buffer_tensors": 1,
            "trainable_tensors": count,
            "parameters": parameters,
            "buffers": [buffer],
        },
        "state": {"unsaved_tensors": 0, "restored": output},
        "moves": {
            "dtypes": ["float64"] * (count + 1),
            "devices": ["meta"] * (count + 1),
            "output": output.astype(np.float64),
        },
    }


QUESTION = PublicQuestion(
    id="03a-register",
    title="register what a module owns",
    functions=("Scaled",),
    parts={"registered": _registered, "state": _state, "moves": _moves},
    relative_tolerance=1e-4,  # float32, several layers
    cases=(
        PublicCase(
            name="one layer, temperature 2",
            inputs=_ONE,
            expected=_expected(
                [_floats(2), _floats(1, 0, -2), _floats(1, 2, 0, -1, 3, 1)],
                _floats(1, -0.85),
                _floats([3.5, -1, 3], [0.5, -0.5, -3.5]),
            ),
            mistakes=_mistakes(3, _floats(0.1, 0.05)),
        ),
        PublicCase(
            name="two layers with a relu between, temperature 0.5",
            inputs=_TWO,
            expected=_expected(
                [_floats(0.5), _floats(0.5), _floats(0, 1, -1), _floats(1, 0, -1), _floats(1, 0, -1, 1, 2, 1)],
                _floats(0.6, 0.2),
                _floats([-3]),
            ),
            mistakes=_mistakes(5, _floats(0.15, 0.2)),
        ),
    ),
    misconceptions={
        "nothing-registered": Misconception(
            "the module owns no parameter and no buffer: an optimizer has nothing to train, a checkpoint is empty",
            "which kinds of attribute an nn.Module notices",
        ),
        "layers-hidden": Misconception(
            "the layers are used, but not registered: a plain Python container hides them from the module",
            "which containers of torch.nn hold modules",
        ),
        "temperature-plain": Misconception(
            "the temperature is a plain attribute: no optimizer will see it, no checkpoint will hold it",
            "how a tensor becomes something that an optimizer is given",
        ),
        "temperature-as-buffer": Misconception(
            "the temperature is a buffer: saved and moved, but never trained",
            "which of the two, parameter or buffer, parameters() lists",
        ),
        "temperature-frozen": Misconception(
            "a parameter does not require a gradient: it is listed, and stays as it is",
            "requires_grad of everything that should be learned",
        ),
        "mean-plain": Misconception(
            "the running mean is a plain attribute: it stays behind when the module moves, and is not saved",
            "how a tensor that is not trained is registered",
        ),
        "mean-as-parameter": Misconception(
            "the running mean is listed among the parameters: an optimizer would be given a statistic",
            "who changes the running mean: the optimizer or forward",
        ),
        "mean-not-saved": Misconception(
            "the running mean is a buffer that state_dict() leaves out: a restored model starts without it",
            "the arguments of register_buffer",
        ),
        "values-ignored": Misconception(
            "the mean that was given is not the one that the module starts from",
            "where each starting value comes from: all are arguments",
        ),
    },
)
