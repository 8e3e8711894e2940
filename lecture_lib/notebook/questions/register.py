"""03a-register: a module whose layers and temperature are parameters and whose running mean is a buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from ..question import Functions, Inputs, PublicQuestion


class Shift(nn.Module):
    """A layer that owns a buffer and no parameter."""

    def __init__(self, shift: torch.Tensor) -> None:
        super().__init__()
        self.shift: torch.Tensor
        self.register_buffer("shift", shift)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Inputs [B, F], each shifted by the same vector."""
        return x + self.shift


def _made(functions: Functions, inputs: Inputs, *, moved: bool = False) -> nn.Module:
    """The student's module; with `moved`, one of the same shapes and other values."""
    layers: list[nn.Module] = [Shift(torch.tensor(shift + np.float32(moved))) for shift in inputs["shifts"]]
    for number, (weight, bias) in enumerate(zip(inputs["weights"], inputs["biases"], strict=True)):
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(weight + moved))
            linear.bias.copy_(torch.tensor(bias + moved))
        layers += [nn.ReLU(), linear] if number else [linear]
    mean = torch.tensor(inputs["mean"] + np.float32(moved))
    module = functions["Scaled"](layers, mean, float(inputs["temperature"]) * (1 + moved))
    if not isinstance(module, nn.Module):
        raise TypeError(f"Scaled(...) is a {type(module).__name__}, not an nn.Module")
    return module


def _tensors(module: nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def _ordered(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Flat and in the order of size and values: under which name a tensor is registered does not matter."""
    return sorted((tensor.detach().flatten() for tensor in tensors), key=lambda flat: (len(flat), flat.tolist()))


def _registered(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """What is listed, and which parameters a backward pass reaches; the buffers after a pass in training mode."""
    module = _made(functions, inputs).train()
    parameters = _ordered(list(module.parameters()))
    module(torch.tensor(inputs["x"])).sum().backward()
    buffers = _ordered(list(module.buffers()))
    return {
        "parameter_tensors": len(parameters),
        "buffer_tensors": len(buffers),
        "trainable_tensors": sum(parameter.grad is not None for parameter in module.parameters()),
        "parameters": parameters,
        "buffers": buffers,
    }


def _state(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """Another module, once it has loaded the state_dict of one that has trained: what it computes in eval mode."""
    module, restored = _made(functions, inputs).train(), _made(functions, inputs, moved=True).eval()
    x = torch.tensor(inputs["x"])
    module(x)
    state = module.state_dict()
    restored.load_state_dict(state)
    # By address: a tensor that is registered under two names is one tensor.
    owned, saved = ({t.data_ptr() for t in tensors} for tensors in (_tensors(module), state.values()))
    return {"unsaved_tensors": len(owned - saved), "restored": restored(x)}


def _moves(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """What `.double()` and `.to("meta")` took along, and what the module computes from other values of what it owns.

    It is not run on the meta device: PyTorch imports its compiler for that, which takes seconds.
    """
    module, x = _made(functions, inputs).eval().double(), torch.tensor(inputs["x"])
    dtypes = [str(tensor.dtype).removeprefix("torch.") for tensor in _tensors(module)]
    with torch.no_grad():
        for moved, tensor in zip(_tensors(module), _tensors(_made(functions, inputs, moved=True)), strict=True):
            moved.copy_(tensor)
    output = module(x.double())
    module.to("meta")
    return {
        "dtypes": dtypes,
        "devices": [tensor.device.type for tensor in _tensors(module)],
        "output": output,
    }


QUESTION = PublicQuestion(
    id="03a-register",
    title="register what a module owns",
    functions=("Scaled",),
    parts={"registered": _registered, "state": _state, "moves": _moves},
    relative_tolerance=1e-4,  # float32, several layers
)
