"""What would fail after an epoch of training fails before it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from ..randomness import preserved_loader, preserved_random_streams
from .batches import Batches, LossFunction, Unpack, forward, unpack
from .losses import require_labels
from .precision import Precision
from .preserve import preserved_modes


def try_validation_batch(
    model: nn.Module,
    train_loader: Batches,
    val_loader: Batches,
    loss_fn: LossFunction,
    rule: Unpack | None,
    precision: Precision,
    device: torch.device,
) -> None:
    """Send the first validation batch through the model, and look at all labels that are at hand.

    Nothing is learned, and the random streams, the modes and the loader's generators stay as they are.

    Raises:
        ValueError, TypeError: the batch does not fit the model, or labels do not fit its outputs.

    """
    with (
        preserved_random_streams(),
        preserved_modes(model),
        preserved_loader(val_loader),
        torch.no_grad(),
        precision.autocast(),
    ):
        model.eval()
        for number, given in enumerate(val_loader, 1):
            batch = unpack(given, number, rule, val_loader).to(device)
            outputs = forward(model, batch)
            require_labels(loss_fn, outputs, batch.labels, f"val_loader, batch {number}")
            break
        else:
            raise ValueError(
                "val_loader gave 0 examples. Pass one with data; an iterator that was used up gives nothing."
            )
    for name, loader in (("train_loader", train_loader), ("val_loader", val_loader)):
        labels = _labels_at_hand(loader)
        if labels is not None and isinstance(outputs, Tensor) and outputs.ndim == 2:
            require_labels(loss_fn, outputs[:1].expand(len(labels), -1), labels.to(outputs.device), name)


def _labels_at_hand(loader: Any) -> Tensor | None:
    """All labels of a TensorLoader, or of a DataLoader over a TensorDataset: [N] integers, else None."""
    tensors = getattr(loader, "tensors", None) or getattr(getattr(loader, "dataset", None), "tensors", None)
    plain = (
        isinstance(tensors, tuple)
        and len(tensors) == 2
        and getattr(loader, "collate_fn", None) in (None, default_collate)
    )
    labels = tensors[1] if plain and tensors is not None else None
    whole = isinstance(labels, Tensor) and labels.ndim == 1 and not labels.is_floating_point()
    return labels if whole else None
