"""The batch's mean loss, with errors that say what about outputs, labels or loss function does not fit."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..types import LossFunction
from .batches import Batch, describe, name_of
from .structures import name_parts, tensors_of

# Of torch's losses of single entries those that broadcast; the others refuse other shapes themselves.
ENTRY_BY_ENTRY = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss)
ENTRY_BY_ENTRY_FUNCTIONS = (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss)


def compares_entries(loss_fn: LossFunction) -> bool:
    """Whether the loss compares entry by entry, and so would broadcast labels of another shape."""
    return isinstance(loss_fn, ENTRY_BY_ENTRY) or loss_fn in ENTRY_BY_ENTRY_FUNCTIONS


def mean_loss(loss_fn: LossFunction, outputs: Any, batch: Batch) -> Tensor:
    """The loss of a batch, one number that carries a gradient; 0 for a batch that only stands in."""
    if batch.stands_in:
        return _no_loss(outputs)
    labels = batch.labels
    # On the CPU torch itself refuses what require_labels does, outputs without classes apart: a step need not pay for
    # it twice, and a failure is explained afterwards.
    on_cpu = isinstance(outputs, Tensor) and outputs.device.type == "cpu" and outputs.ndim > 1
    if not on_cpu:
        require_labels(loss_fn, outputs, labels, f"batch {batch.number}")
    elif compares_entries(loss_fn):
        require_same_shape(loss_fn, outputs, labels, f"batch {batch.number}")
    try:
        loss = loss_fn(outputs, labels)
    except Exception as error:
        if on_cpu:
            require_labels(loss_fn, outputs, labels, f"batch {batch.number}")
        error.add_note(f"batch {batch.number}: outputs {describe(outputs)}, labels {describe(labels)}.")
        if not isinstance(outputs, Tensor) and isinstance(error, TypeError | AttributeError):
            raise TypeError(f"batch {batch.number}: {refuse_structure('loss_fn', outputs)}") from error
        raise
    if not isinstance(loss, Tensor):
        raise TypeError(
            f"batch {batch.number}: loss_fn returned a {type(loss).__name__}; backward needs the tensor. Return it "
            "without .item() or float()."
        )
    if loss.numel() != 1:
        raise ValueError(
            f"batch {batch.number}: loss_fn returned shape {list(loss.shape)}; expected one number, the batch's mean. "
            "Use reduction='mean', or .mean()."
        )
    if loss.is_complex():
        raise ValueError(f"batch {batch.number}: the loss is complex; a gradient needs a real number. Use loss.abs().")
    return loss


def refuse_structure(caller: str, outputs: Any) -> str:
    """The sentence for a loss or metric that wants a tensor and gets a dataclass, dict or tuple."""
    parts = name_parts(outputs)
    shapes = ", ".join(f"outputs{name} {list(part.shape)}" for name, part in parts.items()) or "no tensor"
    part = f"outputs{next(iter(parts), '.logits')}"
    example = f"F.cross_entropy({part}, labels)" if caller == "loss_fn" else f"accuracy({part}, labels)"
    return (
        f"{caller} cannot take what the model gives, a {type(outputs).__name__} with {shapes}. Choose the part it "
        f"wants: {caller}=lambda outputs, labels: {example}."
    )


def require_graph(loss: Tensor, outputs: Any, batch: Batch) -> None:
    """ValueError for a loss that no gradient can come from."""
    if loss.requires_grad:
        return
    where = f"batch {batch.number}: the loss {loss.item():.4g} has no graph, so no gradient can reach the model: "
    if not torch.is_grad_enabled():
        raise ValueError(f"{where}gradients are switched off. Call torch.set_grad_enabled(True), or leave no_grad().")
    if any(tensor.requires_grad for tensor in tensors_of(outputs) if isinstance(tensor, Tensor)):
        raise ValueError(
            f"{where}loss_fn cuts it off from the outputs. Look there for detach, item, argmax, rounding, no_grad or "
            "NumPy, and compute the loss from the outputs themselves."
        )
    raise ValueError(
        f"{where}the model's outputs do not depend on a trainable parameter. Look in forward for detach, argmax, "
        "torch.no_grad, torch.inference_mode or NumPy."
    )


def require_labels(loss_fn: LossFunction, outputs: Any, y: Any, where: str) -> None:
    """Refuse what cross-entropy does not take: it wants class indices, or probabilities of the shape of the outputs.

    Raises:
        ValueError, TypeError: with `where`, what is wrong, and the remedy.

    """
    if isinstance(loss_fn, nn.CrossEntropyLoss):
        ignore_index = loss_fn.ignore_index
    elif loss_fn is F.cross_entropy:
        ignore_index = -100
    elif compares_entries(loss_fn):
        require_same_shape(loss_fn, outputs, y, where)
        return
    else:
        return
    if not isinstance(outputs, Tensor):
        raise ValueError(f"{where}: {refuse_structure('loss_fn', outputs)}")
    if outputs.ndim < 2:
        raise ValueError(
            f"{where}: outputs are {describe(outputs)}; CrossEntropyLoss wants logits [B, C], one for each class."
        )
    if not isinstance(y, Tensor):
        raise TypeError(f"{where}: labels are {describe(y)}; CrossEntropyLoss wants a tensor. Pass unpack=...")
    if y.is_floating_point() and y.shape == outputs.shape:
        return
    expected = [outputs.shape[0], *outputs.shape[2:]]
    # torch also takes uint8, though only for outputs [B, C].
    indices = y.dtype == torch.long or (y.dtype == torch.uint8 and outputs.ndim == 2)
    if not indices or list(y.shape) != expected:
        differences = [] if indices else [f"dtype {name_of(y.dtype)}"]
        differences += [] if list(y.shape) == expected else [f"shape {list(y.shape)}"]
        raise ValueError(
            f"{where}: labels have {' and '.join(differences)}; CrossEntropyLoss wants class indices (torch.long), "
            f"shape {expected}. {_remedy(y, outputs, indices)}, or pass probabilities of shape {list(outputs.shape)}."
        )
    classes = outputs.shape[1]
    # One look at both ends where that is enough: on a GPU this runs at each step.
    if y.numel() and _in_range(y, classes):
        return
    wrong = ((y < 0) | (y >= classes)) & (y != ignore_index)
    if wrong.any():
        raise ValueError(
            f"{where}: a label is {y[wrong][0].item()} and the model has {classes} outputs, so labels lie from "
            f"0 to {classes - 1}. Subtract 1 from labels that count from 1, or give the last layer an output for each "
            "class."
        )


def require_same_shape(loss_fn: LossFunction, outputs: Any, y: Any, where: str) -> None:
    """ValueError for labels that a loss would broadcast: with outputs [B, 1] and labels [B], every pair is compared."""
    if not (isinstance(outputs, Tensor) and isinstance(y, Tensor)) or outputs.shape == y.shape:
        return
    name = getattr(loss_fn, "__name__", type(loss_fn).__name__)
    if outputs.numel() == y.numel():
        remedy = "Pass labels.reshape(outputs.shape), if their order is the same"
        if outputs.ndim == y.ndim + 1 and outputs.shape[-1] == 1:
            remedy = "Let the model end in .squeeze(-1), or pass labels.unsqueeze(-1)"
    else:
        remedy = "Give both the same shape"
    try:
        broadcast = torch.broadcast_shapes(outputs.shape, y.shape)
        effect = f"would broadcast them to {list(broadcast)}: each output meets labels that are not its own"
    except RuntimeError:
        effect = "needs one label for each output"
    raise ValueError(
        f"{where}: outputs are {list(outputs.shape)} and labels {list(y.shape)}. {name} compares entry by entry and "
        f"{effect}. {remedy}."
    )


def _no_loss(outputs: Any) -> Tensor:
    """0, with a gradient of 0 for everything that the outputs depend on."""
    parts = [tensor.sum() * 0 for tensor in tensors_of(outputs) if tensor.requires_grad]
    # Parts may differ in dtype, which stack refuses.
    return torch.stack([part.float() for part in parts]).sum()


def _in_range(y: Tensor, classes: int) -> bool:
    lowest, highest = torch.aminmax(y)
    return bool(lowest >= 0) and bool(highest < classes)


def _remedy(y: Tensor, outputs: Tensor, indices: bool) -> str:
    if y.shape == outputs.shape:
        return "Call y.argmax(dim=1) on one-hot labels"
    call = "y" if y.ndim < 2 or y.shape[1] != 1 else "y.squeeze(1)"
    if not indices:
        call += ".long()"
    return "Give each example its own label" if call == "y" else f"Call {call}"
