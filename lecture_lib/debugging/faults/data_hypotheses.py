"""Rungs 1, 2 and 4, by comparison: what simple learners, and training on other versions of the data, say of them."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from .._engine.events import LossCall
from .._engine.evidence import Evidence
from .finding import Finding
from .loss_probes import sample

SATISFIED = 0.9  # score of a constant answer that makes a metric worthless
MOVED = "training moves its pictures by a few pixels at most: labels stay right, learning is slower"
LITTLE, ALL = 0.2, 0.9  # noise relative to a picture's spread; of the pictures that must be known


def moved(evidence: Evidence) -> bool:
    """Whether training is fed pictures of the data moved by an eighth of a side at most, with little noise."""
    fed = evidence.run.recording.fed[True]
    if not fed or evidence.plain is None:
        return False
    rows, plain = _squares(fed[0]), _squares(evidence.plain.x)
    if rows is None or plain is None or rows.shape[1:] != plain.shape[1:]:
        return False
    rows, (height, width) = rows[:64], rows.shape[2:]
    reach = min(height, width) // 8
    inside = rows[:, :, reach : height - reach, reach : width - reach].flatten(1)
    nearest = torch.full((len(rows),), math.inf)
    for down in range(2 * reach + 1):
        for right in range(2 * reach + 1):
            there = plain[:, :, down : down + height - 2 * reach, right : right + width - 2 * reach].flatten(1)
            nearest = torch.minimum(nearest, torch.cdist(inside, there).amin(dim=1))
    size = (inside - inside.mean(dim=0)).norm(dim=1).median()
    share_read = min(1.0, len(plain) / (evidence.examples or len(plain)))  # of large data sets only a part is looked at
    return float((nearest < LITTLE * size).float().mean()) >= ALL * share_read


def _squares(x: Tensor) -> Tensor | None:
    """Pictures [N, C, H, W], also of pixels in a row; None where they are none."""
    if not x.is_floating_point():
        return None
    side = math.isqrt(x.shape[1]) if x.ndim == 2 else 0
    x = x.view(-1, 1, side, side) if side > 2 and side * side == x.shape[1] else x
    return x.cpu().float() if x.ndim == 4 and min(x.shape[2:]) >= 8 else None


def weighted_wrongly(evidence: Evidence) -> Finding | None:
    """D35: weights and sampling together leave the classes more unequal than they are, or turned round."""
    train, val = evidence.train, evidence.val
    calls = [call for call in evidence.run.recording.of(LossCall) if isinstance(call.options.get("weight"), Tensor)]
    if train is None or val is None or evidence.spec.task != "classification" or train.y.is_floating_point():
        return None
    sampled = hasattr(getattr(evidence.program.train_loader, "sampler", None), "weights")
    pair = sample(evidence)
    weight = None if pair is None else _weights_by_gradient(evidence, *pair)  # with what the author does besides
    if weight is None and calls:
        weight = calls[0].options["weight"].double()
    if weight is None and not sampled:
        return None
    stored = getattr(getattr(evidence.program.train_loader, "dataset", None), "tensors", (None, train.y))[1]
    classes = int(max(stored.max(), train.y.max())) + 1
    prior = torch.bincount(stored.long().flatten(), minlength=classes).double()
    counts = torch.bincount(train.y.long().flatten(), minlength=classes).double()
    if weight is None or len(weight) < classes:
        weight = torch.ones(classes, dtype=torch.double)
    present = prior > 0
    weighted = (counts * weight[:classes])[present]
    weighted, prior = weighted / weighted.sum(), prior[present] / prior.sum()
    unequal, was = float(weighted.max() / weighted.min().clamp(min=1e-6)), float(prior.max() / prior.min())
    turned = float(np.corrcoef(weighted.log().numpy(), prior.log().numpy())[0, 1]) < -0.3 and unequal > 2.0
    if not (unequal > 1.5 * was or (turned and was > 1.5)):
        return None
    low, high = int(weighted.argmin()), int(weighted.argmax())
    return Finding(
        "D35",
        f"the loss counts class {high} {unequal:.1f} times as much as class {low}; in the data the most frequent class "
        f"is {was:.1f} times as frequent as the rarest",
        {"unequal": unequal, "was": was},
    )


def _weights_by_gradient(evidence: Evidence, outputs: Tensor, targets: Tensor) -> Tensor | None:
    """How much the loss weights an example of each class, from its gradient at equal scores."""
    if outputs.ndim != 2 or targets.ndim != 1:
        return None
    # At equal scores each example of a class has a gradient of the same size, but for its weight.
    scores = torch.zeros_like(outputs).requires_grad_()
    gradient = torch.autograd.grad(evidence.own_loss(scores, targets), scores)[0].abs().sum(dim=1)
    weights = torch.zeros(outputs.shape[1], dtype=torch.double)
    for label in range(outputs.shape[1]):
        if bool((targets == label).any()):
            weights[label] = float(gradient[targets == label].mean())
    if not bool((weights > 0).all()) or float(weights.max() / weights.min()) < 1.05:
        return None
    return weights / weights.mean()
