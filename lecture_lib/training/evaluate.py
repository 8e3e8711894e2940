"""Evaluation: the mean loss and metric over a data set, without a trace in the model or the training."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lecture_lib.training.preserve import preserved_modes, preserved_random_streams

Batches = Iterable[Sequence[Tensor]]  # each batch: inputs [B, ...], labels [B, ...]
LossFunction = Callable[[Tensor, Tensor], Tensor]  # outputs, labels -> the batch's mean loss, a scalar tensor
Metric = Callable[[Tensor, Tensor], float]  # outputs, labels -> the batch's mean


@dataclass(frozen=True)
class Evaluation:
    """Means over all examples, each example counted once.

    loss: in the loss function's unit (nats for cross-entropy)
    metric: in the metric's unit (a fraction for accuracy)
    examples: how many were seen
    """

    loss: float
    metric: float
    examples: int


def accuracy(outputs: Tensor, labels: Tensor) -> float:
    """The fraction of examples whose largest output is at the label.

    outputs: logits or probabilities [B, C], C of 2 or more
    labels: class indices [B]

    Raises ValueError for other shapes and types, which would broadcast to a wrong number, and for no
    examples.
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

    loader: batches of (inputs [B, ...], labels [B, ...]); a shorter last batch counts by its examples
    loss_fn: outputs, labels -> mean loss of the batch; weighted by the batch's examples, so class weights and
        ignore_index, which divide by something else, make the result depend a little on the batches
    metric: outputs, labels -> mean of the batch
    device: where batches go; default: where the model's parameters are

    Leaves each module's mode and the random streams (torch, CUDA, NumPy, Python) as they were, also after an
    exception, so that training goes on as if it had not been evaluated. Raises ValueError for a loader
    without examples, for a loss that is not one number, and for a device that the model is not on.
    Source: lecture part 3, the recipe.
    """
    device = resolve_device(model, device)
    total_loss, total_metric, examples = 0.0, 0.0, 0
    # no_grad, not inference_mode: a tensor that the model caches here can still take part in training.
    with preserved_random_streams(), preserved_modes(model), torch.no_grad():
        model.eval()
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            outputs = model(x)
            loss = require_mean(loss_fn(outputs, y))
            # The mean of batch means would give an example of a short last batch more weight.
            total_loss += loss.item() * len(y)
            total_metric += float(metric(outputs, y)) * len(y)
            examples += len(y)
    if examples == 0:
        raise ValueError("the loader gave 0 examples. Pass one with data; an iterator that was used up gives nothing.")
    return Evaluation(total_loss / examples, total_metric / examples, examples)


def resolve_device(model: nn.Module, device: torch.device | str | None) -> torch.device:
    """The device for batches: the asked-for one when the model is there, else the model's own."""
    parameter = next(model.parameters(), None)
    own = torch.device("cpu") if parameter is None else parameter.device
    if device is None:
        return own
    device = torch.device(device)
    # "cuda" means any of them; "cuda:1" is meant as it is said.
    if parameter is not None and (device.type != own.type or device.index not in (None, own.index)):
        raise ValueError(
            f"the model is on {own} and batches would go to {device}. Call model.to('{device}') before you "
            "make the optimizer."
        )
    return device if parameter is None else own


def require_mean(loss: Tensor) -> Tensor:
    """The loss itself, when it is one number."""
    if loss.numel() != 1:
        raise ValueError(
            f"loss_fn returned shape {list(loss.shape)}; expected one number, the batch's mean. Use reduction='mean'."
        )
    return loss
