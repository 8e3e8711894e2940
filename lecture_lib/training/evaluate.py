"""Evaluation: the mean loss and metric over a data set, without a trace in the model or the training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .batches import Batches, LossFunction, forward, mean_loss, unpack
from .checks import require_loss_function, resolve_device
from .preserve import preserved_modes, preserved_random_streams

Metric = Callable[[Tensor, Tensor], float]  # outputs, labels -> the batch's mean


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
    device: torch.device | str | None = None,
) -> Evaluation:
    """The model's mean loss and metric over the loader, in eval mode and without a graph.

    Each batch's mean counts by its number of examples. For a plain mean that gives the mean over all examples,
    whatever the batches. A loss with class weights or ignore_index divides by the weights of the batch instead, so
    that its result depends on how the examples fall into batches: take one batch for the exact value.

    Leaves each module's mode and the random streams (torch, CUDA, NumPy, Python) as they were, also after an
    exception, so that training goes on as if it had not been evaluated.
    Source: lecture part 3, the recipe.

    Args:
        model: outputs for inputs [B, ...]; its weights are read only.
        loader: batches of (inputs [B, ...], labels [B, ...]); a shorter last batch counts by its examples.
        loss_fn: outputs, labels -> mean loss of the batch.
        metric: outputs, labels -> mean of the batch.
        device: where batches go; default: where the model's parameters are.

    Returns:
        Loss, metric and the number of examples.

    Raises:
        TypeError: a batch is no pair of tensors, or loss_fn no function or returns no tensor.
        ValueError: the loader gives no examples, labels do not fit the outputs, the loss is not one mean, or the model
            is not on the device.

    """
    require_loss_function(loss_fn)
    device = resolve_device(model, device)
    total_loss, total_metric, examples = 0.0, 0.0, 0
    # no_grad, not inference_mode: a tensor that the model caches here can still take part in training.
    with preserved_random_streams(), preserved_modes(model), torch.no_grad():
        model.eval()
        for number, batch in enumerate(loader, 1):
            x, y = unpack(batch, number, device)
            outputs = forward(model, x, number)
            # The mean of batch means would give an example of a short last batch more weight.
            total_loss += mean_loss(loss_fn, outputs, y, number).item() * len(y)
            total_metric += float(metric(outputs, y)) * len(y)
            examples += len(y)
    if examples == 0:
        raise ValueError("the loader gave 0 examples. Pass one with data; an iterator that was used up gives nothing.")
    return Evaluation(total_loss / examples, total_metric / examples, examples)
