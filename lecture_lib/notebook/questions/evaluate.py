"""03a-evaluate: the mean loss and all outputs of a model, and no trace of having looked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..._common.randomness import preserved_random_streams
from ..observe import plain
from ..question import Functions, Inputs, PublicQuestion
from .branches import Branches, Taped, asymmetric_loss, pairs

Batch = tuple[Tensor, Tensor]


def _evaluated(functions: Functions, inputs: Inputs, model: nn.Module, batches: Any) -> tuple[Any, Any]:
    loss, outputs = functions["evaluate_outputs"](model, batches, asymmetric_loss(inputs["above"]))
    # In whichever precision they were collected.
    readable = isinstance(outputs, Tensor | np.ndarray)
    return loss, np.asarray(plain(outputs), dtype=np.float64) if readable else outputs


def _one_batch(inputs: Inputs) -> list[Batch]:
    return pairs([np.concatenate(inputs["x"])], [np.concatenate(inputs["y"])])


def _plain_model(inputs: Inputs, offset: float = 0.0) -> Taped:
    return Taped(np.asarray(inputs["weights"])[0], offset)


def _in_its_modes(inputs: Inputs) -> Branches:
    """The model with each layer in its own mode, and the frozen branch's weights frozen."""
    model = Branches(inputs["weights"])
    for layer, training in zip(model.modules(), inputs["training"], strict=True):
        layer.training = training
    list(model.parameters())[-1].requires_grad_(False)
    return model


def _uneven(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    loss, outputs = _evaluated(functions, inputs, _plain_model(inputs), pairs(inputs["x"], inputs["y"]))
    return {"loss": loss, "outputs": outputs}


def _eval_mode(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"outputs": _evaluated(functions, inputs, _in_its_modes(inputs), _one_batch(inputs))[1]}


def _tape(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"outputs": _evaluated(functions, inputs, _plain_model(inputs, inputs["offset"]), _one_batch(inputs))[1]}


def _modes(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    model = _in_its_modes(inputs)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = _parameters(model)
    with torch.set_grad_enabled(inputs["gradients"]):
        _evaluated(functions, inputs, model, _one_batch(inputs))
        gradients = torch.is_grad_enabled()
    return {
        "layers": [
            f"{name or 'model'}: {'train' if layer.training else 'eval'}" for name, layer in model.named_modules()
        ],
        "gradients": "recorded" if gradients else "switched off",
        "parameters": "as before" if _parameters(model) == before else "changed",
    }


def _parameters(model: nn.Module) -> list[Any]:
    """Of each parameter its values, its gradient and whether it needs one."""
    return [(p.tolist(), None if p.grad is None else p.grad.tolist(), p.requires_grad) for p in model.parameters()]


class _Drawing:
    """Batches in their order; for each one a number is drawn from torch's ambient stream, as augmentation does."""

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._batches:
            torch.rand(1)
            yield batch


def _stream(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    with preserved_random_streams():
        torch.manual_seed(inputs["seed"])
        torch.rand(inputs["drawn before"])
        _evaluated(functions, inputs, _plain_model(inputs), _Drawing(pairs(inputs["x"], inputs["y"])))
        return {"next numbers": torch.rand(2)}


QUESTION = PublicQuestion(
    id="03a-evaluate",
    title="evaluate without a trace",
    functions=("evaluate_outputs",),
    parts={"uneven": _uneven, "eval mode": _eval_mode, "no tape": _tape, "modes": _modes, "random stream": _stream},
    ready_made=("lecture_lib.training.evaluate", "lecture_lib.analysis.collect_outputs"),
    relative_tolerance=1e-6,  # sums kept in float32 are right too
)
