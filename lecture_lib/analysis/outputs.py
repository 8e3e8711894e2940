"""A model's outputs for a whole data set, and the metrics that need all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .._common.randomness import preserved_random_streams
from ..training._run.batches import forward
from ..training._run.batches import unpack as unpack_batch
from ..training._run.checks import resolve_device
from ..training._run.preserve import preserved_modes
from ..training.precision import choose_precision
from ..training.types import Batches, Unpack
from .metrics import Array, Metric, by_name

MASKED = -100  # what CrossEntropyLoss ignores


def collect_outputs(
    model: nn.Module,
    loader: Batches,
    *,
    unpack: Unpack | None = None,
    precision: str = "fp32",
    device: torch.device | str | None = None,
) -> tuple[Tensor, Tensor]:
    """The outputs and labels of a whole data set, in eval mode and without a graph.

    Leaves modules' modes and the random streams as they were, as `training.evaluate` does. Outputs [B, C, ...] with
    class indices [B, ...] become a row for each label; labels of -100 are left out.

    Args:
        model: outputs for inputs [B, ...].
        loader: batches as `training.evaluate` takes them.
        unpack: batch -> (inputs, labels), for batches of another structure.
        precision: as in `training.train`.
        device: where batches go; default: where the model's parameters are.

    Returns:
        Outputs [N, ...] and labels [N, ...], on the CPU, in the loader's order.

    Raises:
        ValueError, TypeError: no examples, no pair of tensors, or outputs and labels that do not fit each other.

    """
    device = resolve_device(model, device)
    autocast = choose_precision(precision, device)
    rows: list[tuple[Tensor, Tensor]] = []
    with preserved_random_streams(), preserved_modes(model), torch.no_grad():
        model.eval()
        for number, raw_batch in enumerate(loader, 1):
            batch = unpack_batch(raw_batch, number, unpack, loader)
            with autocast.autocast():
                outputs = forward(model, batch.to(device))
            labels = batch.labels
            if not (isinstance(outputs, Tensor) and isinstance(labels, Tensor)) or len(outputs) != len(labels):
                problem = "outputs and labels are not one tensor each, with a row for each example"
                raise ValueError(f"batch {number}: {problem}. Wrap the model, or pass unpack=..., so that they are.")
            rows.append(_by_label(outputs.cpu(), labels.cpu()))
    if sum(len(labels) for _, labels in rows) == 0:
        raise ValueError("the loader gave no labels. Pass one with data; an iterator that was used up gives nothing.")
    all_outputs, all_labels = zip(*rows, strict=True)
    return torch.cat(all_outputs), torch.cat(all_labels)


def evaluate_metrics(
    model: nn.Module,
    loader: Batches,
    metrics: Sequence[str] | Mapping[str, Metric],
    *,
    weights: Array | Callable[[Tensor], Array] | None = None,
    **batching: Any,
) -> dict[str, float]:
    """Metrics of a model on a whole data set; a macro F1 or an AUROC is no mean over batches.

    Source: lecture part 3, loss is not the metric.

    Args:
        model: outputs for inputs [B, ...]; for the named metrics of classes, logits [B, C], or one logit [B] or [B, 1].
        loader: batches as `training.evaluate` takes them.
        metrics: names, "accuracy", "macro_f1", "auroc", "auprc", "calibration_error", "rmse", "mae" or "r2"; or a dict
            of functions of (outputs [N, ...] as the model gives them, labels [N, ...], weights [N] or None).
        weights: of each label, 0 or more, in the loader's order; or a function of all labels that gives them.
        batching: unpack, precision and device, as in `collect_outputs`.

    Returns:
        A number for each metric.

    Raises:
        ValueError: a name is unknown, or what the metrics and `collect_outputs` refuse.

    """
    chosen = by_name(metrics)
    outputs, labels = collect_outputs(model, loader, **batching)
    shares = weights(labels) if callable(weights) else weights
    return {name: metric(outputs, labels, shares) for name, metric in chosen.items()}


def _by_label(outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """A row for each label that counts."""
    if labels.is_floating_point() or outputs.ndim != labels.ndim + 1:
        return outputs, labels
    flat, classes = outputs.movedim(1, -1).reshape(-1, outputs.shape[1]), labels.reshape(-1)
    if len(flat) != len(classes):
        raise ValueError(f"outputs {list(outputs.shape)} do not fit labels {list(labels.shape)}; expected [B, C, ...].")
    return flat[classes != MASKED], classes[classes != MASKED]
