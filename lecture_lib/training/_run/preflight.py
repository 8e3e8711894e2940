"""What would fail after an epoch of training fails before it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from ..._common.randomness import preserved_loader
from ..precision import Precision
from ..types import Batches, LossFunction, Unpack
from .batches import Batch, forward, unpack
from .losses import require_labels
from .preserve import evaluating


def try_validation_batch(
    model: nn.Module,
    train_loader: Batches,
    val_loader: Batches,
    loss_fn: LossFunction,
    rule: Unpack | None,
    precision: Precision,
    device: torch.device,
) -> tuple[Any, Batch]:
    """Send the first validation batch through the model, and look at all labels that are at hand.

    Nothing is learned, and the random streams, the modes and the loader's generators stay as they are.

    Returns:
        The model's outputs and the batch.

    Raises:
        ValueError, TypeError: the batch does not fit the model, or labels do not fit its outputs.

    """
    outputs, batch = first_outputs(model, val_loader, rule, precision, device, "val_loader")
    require_labels(loss_fn, outputs, batch.labels, "val_loader, batch 1")
    for name, loader in (("train_loader", train_loader), ("val_loader", val_loader)):
        labels = _labels_at_hand(loader)
        if labels is not None and isinstance(outputs, Tensor) and outputs.ndim == 2:
            # Labels are compared with the shape of the outputs only, so one row serves for all of them.
            require_labels(loss_fn, outputs[:1].expand(len(labels), -1), labels.to(outputs.device), name)
    return outputs, batch


def first_outputs(
    model: nn.Module, loader: Batches, rule: Unpack | None, precision: Precision, device: torch.device, name: str
) -> tuple[Any, Batch]:
    """The model's outputs in eval mode for the first batch of a loader, and the batch; nothing else changes.

    Raises:
        ValueError, TypeError: the loader gives nothing, or the batch does not fit the model.

    """
    with evaluating(model), preserved_loader(loader), precision.autocast():
        for raw_batch in loader:
            batch = unpack(raw_batch, 1, rule, loader).to(device)
            return forward(model, batch), batch
    raise ValueError(f"{name} gave 0 examples. Pass one with data; an iterator that was used up gives nothing.")


def _labels_at_hand(loader: Any) -> Tensor | None:
    """All labels of a TensorLoader, or of a DataLoader over a TensorDataset: [N] integers, else None."""
    tensors = getattr(loader, "tensors", None) or getattr(getattr(loader, "dataset", None), "tensors", None)
    plain = (
        isinstance(tensors, tuple)
        and len(tensors) == 2
        and getattr(loader, "collate_fn", None) in (None, default_collate)
    )
    labels = tensors[1] if plain and tensors is not None else None
    are_classes = isinstance(labels, Tensor) and labels.ndim == 1 and not labels.is_floating_point()
    return labels if are_classes else None
