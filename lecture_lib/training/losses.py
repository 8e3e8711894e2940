"""Two losses that PyTorch does not have: focal loss from logits, and InfoNCE over a batch of pairs."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from ._run.checks import require_numbers, require_positive


def focal_loss(logits: Tensor, labels: Tensor, gamma: float = 2.0, weight: Tensor | None = None) -> Tensor:
    """Cross-entropy in which an example with probability p of its label counts (1 - p)^gamma times.

    Easy examples, with p near 1, lose nearly all of their gradient. gamma = 0 is the cross-entropy. Logits of any size
    give a finite loss. The mean is over examples, also with weights, where `cross_entropy` divides by the sum of the
    weights. `torchvision.ops.sigmoid_focal_loss` is the form with one sigmoid for each class.
    Source: Lin et al. 2017, arXiv:1708.02002, equation 5.

    Args:
        logits: [N, C] or [N, C, ...], floating point.
        labels: class indices, torch.long, shape [N] or [N, ...]; -100 marks a missing label, which does not count.
        gamma: focusing parameter, 0 or more; a number without a unit.
        weight: a factor for the examples of each class, shape [C]; default: 1 for all. Lin et al. call it alpha.

    Returns:
        The mean over the labels that are not missing, a scalar; nan when all are missing, as in `cross_entropy`.

    Raises:
        TypeError, ValueError: gamma is not a number, or below 0; the shapes of logits, labels and weight do not fit.

    """
    require_numbers(gamma=gamma)
    if not 0 <= gamma < math.inf:
        raise ValueError(f"gamma is {gamma}; pass a finite number, 0 or more: 2 is usual, 0 is the cross-entropy.")
    if logits.ndim < 2 or labels.shape != logits.shape[:1] + logits.shape[2:]:
        raise ValueError(
            f"logits have shape {list(logits.shape)} and labels {list(labels.shape)}; pass logits [N, C] and labels "
            "[N]. Two classes need two logits for each example."
        )
    negative_log = functional.cross_entropy(logits, labels, reduction="none")
    # 1 - p as -expm1(log p): the difference of two nearly equal numbers would lose the digits of easy examples.
    # Above 0: the slope of a power below 1 is infinite there, and 0 times infinity is nan.
    losses = (-torch.expm1(-negative_log)).clamp_min(torch.finfo(logits.dtype).tiny) ** gamma * negative_log
    if weight is not None:
        if weight.shape != logits.shape[1:2]:
            raise ValueError(f"weight has shape {list(weight.shape)}; pass one number for each of the classes.")
        losses = losses * weight[labels.clamp_min(0)]
    return losses.sum() / (labels != -100).sum()


def info_nce(queries: Tensor, keys: Tensor, temperature: float = 0.1, items: Tensor | None = None) -> Tensor:
    """Cross-entropy of choosing, for each query, its own key among all keys of the batch.

    Row i of `keys` is the positive of row i of `queries`. The logits are cosine similarities divided by the
    temperature. The other keys are negatives, apart from those that show the same item as the query's own key. CLIP
    takes the mean of this loss and of the one with queries and keys exchanged.
    Source: van den Oord et al. 2018, arXiv:1807.03748; with cosines and a temperature: Chen et al. 2020,
    arXiv:2002.05709.

    Args:
        queries: [N, D], floating point, of any length but 0.
        keys: [N, D], as the queries.
        temperature: above 0; a number without a unit. Small values make the loss look at the most similar keys only.
        items: which item each pair shows, torch.long, shape [N]; default: every pair shows another item.

    Returns:
        The mean over the queries, a scalar; ln N when all similarities are equal and all items differ.

    Raises:
        TypeError, ValueError: the temperature is not a number above 0; the shapes do not fit.

    """
    require_positive(temperature, "temperature")
    if queries.ndim != 2 or queries.shape != keys.shape:
        raise ValueError(f"queries have shape {list(queries.shape)} and keys {list(keys.shape)}; pass [N, D] for both.")
    similarities = functional.normalize(queries, dim=1) @ functional.normalize(keys, dim=1).T / temperature
    own = torch.arange(len(queries), device=queries.device)
    if items is not None:
        if items.shape != own.shape:
            raise ValueError(f"items have shape {list(items.shape)}; pass one for each of the {len(queries)} pairs.")
        is_positive = (items[:, None] == items) & (own[:, None] != own)
        similarities = similarities.masked_fill(is_positive, -math.inf)
    return functional.cross_entropy(similarities, own)
