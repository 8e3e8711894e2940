"""Evaluation: the mean loss and metric over a data set, without a trace in the model or the training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..randomness import preserved_random_streams
from .batches import Batches, LossFunction, Unpack, forward
from .batches import unpack as unpack_batch
from .checks import require_loss_function, resolve_device
from .losses import Count, count_terms, mean_loss
from .precision import Precision, choose_precision
from .preserve import preserved_modes
from .processes import ALONE, Processes

Metric = Callable[[Any, Any], float]  # outputs, labels -> the batch's mean


@dataclass(frozen=True)
class Evaluation:
    """Means over all examples, each example counted once.

    Attributes:
        loss: in the loss function's unit (nats for cross-entropy).
        metric: in the metric's unit (a fraction for accuracy).
        examples: how many were seen.

    """

    loss: float
    metric: float
    examples: int


def accuracy(outputs: Tensor, labels: Tensor) -> float:
    """The fraction of examples whose largest output is at the label.

    Args:
        outputs: logits or probabilities [B, C], C of 2 or more.
        labels: class indices [B].

    Returns:
        A fraction from 0 to 1.

    Raises:
        ValueError: other shapes and types, which would broadcast to a wrong number, or no examples.

    """
    shapes_fit = outputs.ndim == 2 and outputs.shape[1] >= 2 and labels.shape == outputs.shape[:1]
    if not shapes_fit or labels.is_floating_point() or len(labels) == 0:
        raise ValueError(
            f"accuracy got outputs {list(outputs.shape)} and labels {list(labels.shape)} of {labels.dtype}; "
            "it wants outputs [B, C] with 2 classes or more and integer class indices [B]. For another "
            "task pass metric=..."
        )
    return (outputs.argmax(dim=1) == labels).sum().item() / len(labels)


def evaluate(
    model: nn.Module,
    loader: Batches,
    loss_fn: LossFunction,
    *,
    metric: Metric = accuracy,
    precision: str | Precision = "fp32",
    count: Count | None = None,
    unpack: Unpack | None = None,
    device: torch.device | str | None = None,
    processes: Processes = ALONE,
) -> Evaluation:
    """The model's mean loss and metric over the loader, in eval mode and without a graph.

    Each batch's mean loss counts by the number of terms that it is the mean of (see `losses.count_terms`), and its
    metric by its examples, so the result is the mean over the data set however it falls into batches.

    Leaves each module's mode and the random streams (torch, CUDA, NumPy, Python) as they were, also after an
    exception, so that training goes on as if it had not been evaluated.
    Source: lecture part 3, the recipe.

    Args:
        model: outputs for inputs [B, ...]; its weights are read only.
        loader: batches of (inputs [B, ...], labels [B, ...]); a shorter last batch counts by its examples.
        loss_fn: outputs, labels -> mean loss of the batch.
        metric: outputs, labels -> mean of the batch.
        precision: as in `train`.
        count: labels -> how many terms the batch's mean loss is the mean of.
        unpack: batch -> (inputs, labels), for batches of another structure.
        device: where batches go; default: where the model's parameters are.
        processes: that evaluate together, each its own loader's part of the data; see `sharing.share`. A metric that is
            no mean over examples is then that of the parts.

    Returns:
        Loss, metric and the number of examples.

    Raises:
        TypeError: a batch is no pair of tensors, or loss_fn no function or returns no tensor.
        ValueError: the loader gives no examples, labels do not fit the outputs, the loss is not one mean, or the model
            is not on the device.

    """
    require_loss_function(loss_fn)
    device = resolve_device(model, device)
    if not isinstance(precision, Precision):
        precision = choose_precision(precision, device)
    total_loss, total_metric, terms, examples = 0.0, 0.0, 0.0, 0
    # no_grad, not inference_mode: a tensor that the model caches here can still take part in training.
    with preserved_random_streams(), preserved_modes(model), torch.no_grad():
        model.eval()
        for number, given in enumerate(loader, 1):
            batch = unpack_batch(given, number, unpack, loader)
            if batch.stands_in:
                continue
            counted = count_terms(loss_fn, batch, count)
            batch = batch.to(device)
            with precision.autocast():
                outputs = forward(model, batch)
                # A mean over nothing is 0/0, and counts for nothing.
                loss = mean_loss(loss_fn, outputs, batch).item() if counted else 0.0
            # The mean of batch means would give an example of a short last batch more weight.
            total_loss += loss * counted
            total_metric += float(metric(outputs, batch.labels)) * batch.examples
            terms += counted
            examples += batch.examples
    total_loss, total_metric, terms, total = processes.sum(total_loss, total_metric, terms, examples)
    examples = int(total)
    if examples == 0:
        raise ValueError("the loader gave 0 examples. Pass one with data; an iterator that was used up gives nothing.")
    if terms == 0:
        raise ValueError(f"all labels of {examples} examples are masked: there is no loss. Look at ignore_index.")
    return Evaluation(total_loss / terms, total_metric / examples, examples)
