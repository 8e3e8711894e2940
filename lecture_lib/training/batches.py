"""One batch through the model and the loss, with errors that say what about the batch does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

Batches = Iterable[Sequence[Tensor]]  # each batch: inputs [B, ...], labels [B, ...]
LossFunction = Callable[[Tensor, Tensor], Tensor]  # outputs, labels -> the batch's mean loss, a scalar tensor


def unpack(batch: Any, number: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The inputs and labels of a batch, on the device. `number` counts batches from 1, for messages."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        held = f" of {len(batch)}" if isinstance(batch, tuple | list) else ""
        raise TypeError(
            f"batch {number} is a {type(batch).__name__}{held}; a batch is a pair (inputs, labels) of tensors. For "
            "data in memory pass TensorLoader(inputs, labels, batch_size=64)."
        )
    for name, part in zip(("inputs", "labels"), batch, strict=True):
        if not hasattr(part, "to"):
            raise TypeError(
                f"batch {number}: the {name} are a {type(part).__name__}, not a tensor. Use torch.as_tensor; a Dataset "
                "goes into a DataLoader first."
            )
    x, y = (part.to(device) for part in batch)
    if y.ndim == 0:
        raise ValueError(
            f"batch {number}: the labels are a single number; they have one entry for each example. A Dataset gives "
            "single examples: wrap it in DataLoader(dataset, batch_size=64)."
        )
    return x, y


def forward(model: nn.Module, x: Tensor, number: int) -> Tensor:
    """The model's outputs. A failure is explained afterwards: a model may well convert its inputs itself."""
    try:
        outputs: Tensor = model(x)
    except Exception as error:
        if "more than 1 value per channel" in str(error) and any(isinstance(m, _BatchNorm) for m in model.modules()):
            raise ValueError(
                f"batch {number}: it holds {len(x)} example, of which batch normalisation in train mode can take no "
                "variance. Pass drop_last=True to the loader, or a batch_size that leaves no single one."
            ) from error
        own = next((parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()), x.dtype)
        # Only a RuntimeError: whole numbers that an embedding cannot look up are an IndexError.
        if isinstance(error, RuntimeError) and x.dtype != own:
            remedy = "x.float() / 255, for pixels from 0 to 255" if x.dtype == torch.uint8 else f"x.to({own})"
            raise ValueError(
                f"batch {number}: inputs have dtype {_name(x.dtype)}; the model's parameters are {_name(own)}. "
                f"Pass {remedy}."
            ) from error
        error.add_note(f"batch {number}: inputs {_describe(x)}.")
        raise
    return outputs


def mean_loss(loss_fn: LossFunction, outputs: Tensor, y: Tensor, number: int) -> Tensor:
    """The loss of a batch, one number that carries a gradient."""
    if isinstance(loss_fn, nn.CrossEntropyLoss):
        _require_classes(outputs, y, loss_fn.ignore_index, number)
    elif loss_fn is F.cross_entropy:
        _require_classes(outputs, y, -100, number)
    try:
        loss = loss_fn(outputs, y)
    except Exception as error:
        error.add_note(f"batch {number}: outputs {_describe(outputs)}, labels {_describe(y)}.")
        raise
    if not isinstance(loss, Tensor):
        raise TypeError(
            f"batch {number}: loss_fn returned a {type(loss).__name__}; backward needs the tensor. Return it without "
            ".item() or float()."
        )
    if loss.numel() != 1:
        raise ValueError(
            f"batch {number}: loss_fn returned shape {list(loss.shape)}; expected one number, the batch's mean. Use "
            "reduction='mean', or .mean()."
        )
    return loss


def _require_classes(outputs: Tensor, y: Tensor, ignore_index: int, number: int) -> None:
    """What cross-entropy takes: class indices, or probabilities of the shape of the outputs."""
    if not isinstance(outputs, Tensor) or outputs.ndim < 2:
        raise ValueError(
            f"batch {number}: outputs are {_describe(outputs)}; CrossEntropyLoss wants logits [B, C], one for "
            "each class."
        )
    if y.is_floating_point() and y.shape == outputs.shape:
        return
    wanted = [outputs.shape[0], *outputs.shape[2:]]
    # torch also takes uint8, though only for outputs [B, C].
    indices = y.dtype == torch.long or (y.dtype == torch.uint8 and outputs.ndim == 2)
    if not indices or list(y.shape) != wanted:
        found = [] if indices else [f"dtype {_name(y.dtype)}"]
        found += [] if list(y.shape) == wanted else [f"shape {list(y.shape)}"]
        raise ValueError(
            f"batch {number}: labels have {' and '.join(found)}; CrossEntropyLoss wants class indices (torch.long), "
            f"shape {wanted}. {_remedy(y, outputs, indices)}, or pass probabilities of shape {list(outputs.shape)}."
        )
    classes = outputs.shape[1]
    wrong = ((y < 0) | (y >= classes)) & (y != ignore_index)
    if wrong.any():
        raise ValueError(
            f"batch {number}: a label is {y[wrong][0].item()} and the model has {classes} outputs, so labels lie from "
            f"0 to {classes - 1}. Subtract 1 from labels that count from 1, or give the last layer an output for each "
            "class."
        )


def _remedy(y: Tensor, outputs: Tensor, indices: bool) -> str:
    if y.shape == outputs.shape:
        return "Call y.argmax(dim=1) on one-hot labels"
    call = "y" if y.ndim < 2 or y.shape[1] != 1 else "y.squeeze(1)"
    if not indices:
        call += ".long()"
    return "Give each example its own label" if call == "y" else f"Call {call}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _describe(value: object) -> str:
    if isinstance(value, Tensor):
        return f"of shape {list(value.shape)} and dtype {_name(value.dtype)}"
    return f"of type {type(value).__name__}"
