"""The batch's mean loss, and how many terms it is the mean of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .batches import Batch, LossFunction, describe, name_of, tensors_of

Count = Callable[[Any], float | Tensor]  # labels -> how many terms the batch's mean loss is the mean of

_ELEMENTWISE = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.BCELoss, nn.BCEWithLogitsLoss)


def mean_loss(loss_fn: LossFunction, outputs: Any, batch: Batch) -> Tensor:
    """The loss of a batch, one number that carries a gradient."""
    labels = batch.labels
    # On the CPU torch itself refuses what require_labels does, outputs without classes apart: a step need not pay for
    # it twice, and a failure is explained afterwards.
    on_cpu = isinstance(outputs, Tensor) and outputs.device.type == "cpu" and outputs.ndim > 1
    if not on_cpu:
        require_labels(loss_fn, outputs, labels, f"batch {batch.number}")
    try:
        loss = loss_fn(outputs, labels)
    except Exception as error:
        if on_cpu:
            require_labels(loss_fn, outputs, labels, f"batch {batch.number}")
        error.add_note(f"batch {batch.number}: outputs {describe(outputs)}, labels {describe(labels)}.")
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
    return loss


def no_loss(outputs: Any) -> Tensor:
    """0, with a gradient of 0 for everything that the outputs depend on."""
    parts = [one.sum() * 0 for one in tensors_of(outputs) if one.requires_grad]
    return torch.stack([part.float() for part in parts]).sum()


def count_terms(loss_fn: LossFunction, batch: Batch, count: Count | None) -> float:
    """How many terms the batch's mean loss is the mean of: its weight among other batches.

    Cross-entropy divides by the labels that are not ignored, each with its class's weight; losses of single entries by
    the entries; any other loss is taken as a mean over the examples, unless `count` says better.

    Args:
        loss_fn: the loss.
        batch: whose labels are counted.
        count: labels -> the number; 0 means that nothing in the batch is learned from.

    Raises:
        ValueError: `count` gave no number from 0 up.

    """
    labels = batch.labels
    if count is not None:
        counted = count(labels)
        one = counted.numel() == 1 if isinstance(counted, Tensor) else isinstance(counted, int | float)
        number = float(counted) if one else -1.0
        if not 0 <= number < float("inf"):
            raise ValueError(
                f"batch {batch.number}: count gave {counted} for labels {describe(labels)}; it counts what the mean "
                "loss is the mean of, 0 or more. For masked labels: count=lambda labels: (labels != -100).sum()"
            )
        return number
    if not isinstance(labels, Tensor):
        return batch.examples
    if loss_fn is F.cross_entropy or isinstance(loss_fn, nn.CrossEntropyLoss | nn.NLLLoss):
        return _count_classes(labels, getattr(loss_fn, "ignore_index", -100), getattr(loss_fn, "weight", None))
    if isinstance(loss_fn, _ELEMENTWISE) or loss_fn in (F.mse_loss, F.l1_loss, F.binary_cross_entropy_with_logits):
        return labels.numel()
    return batch.examples


def _count_classes(labels: Tensor, ignore_index: int, weight: Tensor | None) -> float:
    if labels.is_floating_point():  # probabilities [B, C, ...]: the mean is over all but the classes
        return labels.numel() / labels.shape[1] if labels.ndim > 1 else labels.numel()
    counted = labels != ignore_index
    if weight is None:
        return float(counted.sum())
    known = labels[counted & (labels >= 0) & (labels < len(weight))].long()
    return float(weight.detach().to(labels.device, torch.float64)[known].sum())


def require_labels(loss_fn: LossFunction, outputs: Any, y: Any, where: str) -> None:
    """Refuse what cross-entropy does not take: it wants class indices, or probabilities of the shape of the outputs.

    Raises:
        ValueError, TypeError: with `where`, what is wrong, and the remedy.

    """
    if isinstance(loss_fn, nn.CrossEntropyLoss):
        ignore_index = loss_fn.ignore_index
    elif loss_fn is F.cross_entropy:
        ignore_index = -100
    else:
        return
    if not isinstance(outputs, Tensor) or outputs.ndim < 2:
        raise ValueError(
            f"{where}: outputs are {describe(outputs)}; CrossEntropyLoss wants logits [B, C], one for each class."
        )
    if not isinstance(y, Tensor):
        raise TypeError(f"{where}: labels are {describe(y)}; CrossEntropyLoss wants a tensor. Pass unpack=...")
    if y.is_floating_point() and y.shape == outputs.shape:
        return
    wanted = [outputs.shape[0], *outputs.shape[2:]]
    # torch also takes uint8, though only for outputs [B, C].
    indices = y.dtype == torch.long or (y.dtype == torch.uint8 and outputs.ndim == 2)
    if not indices or list(y.shape) != wanted:
        found = [] if indices else [f"dtype {name_of(y.dtype)}"]
        found += [] if list(y.shape) == wanted else [f"shape {list(y.shape)}"]
        raise ValueError(
            f"{where}: labels have {' and '.join(found)}; CrossEntropyLoss wants class indices (torch.long), "
            f"shape {wanted}. {_remedy(y, outputs, indices)}, or pass probabilities of shape {list(outputs.shape)}."
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
