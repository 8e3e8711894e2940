"""Rung 3: what must stay, and what must change, when the examples of a loss change places."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._engine.assumptions import NotAskedError
from .._engine.events import Batch
from .._engine.evidence import Evidence
from .._engine.loss_calls import NUMBERS, calls
from .evaluation_rules import between
from .finding import Finding
from .loss_probes import sample

SAME_LOSS = 1e-3  # relative; what the order of a sum leaves


def broadcast(evidence: Evidence) -> Finding | None:
    """L08: predictions and targets have other shapes, or labels can be permuted without effect."""
    for call in calls(evidence, *NUMBERS):
        if isinstance(call.targets, Tensor) and call.outputs.shape != call.targets.shape and call.targets.numel() > 1:
            a, b = list(call.outputs.shape), list(call.targets.shape)
            return Finding("L08", f"{call.name} got predictions {a} and targets {b}: it compared each with all")
    pair = sample(evidence)
    if pair is None:
        return None
    outputs, targets = pair
    values = targets.reshape(len(targets), -1).unique(dim=0)
    if len(values) < 2 or targets.ndim == 0:
        return None
    noise = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1))
    scores = outputs + 0.1 * noise.to(outputs) * outputs.std().clamp(min=0.1)
    if targets.is_floating_point():  # about as large as the targets, so that no rounding hides them
        scores = targets.mean() + targets.std() * noise.to(outputs)
    order = torch.arange(len(targets)).roll(len(targets) // 2 + 1)
    with torch.no_grad():
        losses = [float(evidence.own_loss(scores, labels)) for labels in (targets, targets[order])]
        without = float(evidence.own_loss(scores, targets[:1].expand_as(targets)))
    if torch.equal(targets, targets[order]) or not all(map(math.isfinite, losses)):
        return None
    if abs(losses[0] - losses[1]) > 1e-6 * abs(losses[0]):
        return None
    if without == losses[0]:
        raise NotAskedError("the loss does not depend on the targets, as a contrastive one need not")
    return Finding("L08", f"with the labels of other examples the loss is the same: {losses[0]:.6g}", {"loss": losses})


def summed(evidence: Evidence) -> Finding | None:
    """L16: the loss of a batch beside itself is twice that of the batch."""
    pair = sample(evidence)
    if pair is None or evidence.spec.couples_samples:
        return None
    outputs, targets = pair
    with torch.no_grad():
        once = float(evidence.own_loss(outputs, targets))
        twice = float(evidence.own_loss(torch.cat([outputs, outputs]), torch.cat([targets, targets])))
    if not (math.isfinite(once) and math.isfinite(twice)) or abs(once) < 1e-9 or abs(twice / once - 2) > 1e-3:
        return None
    return Finding("L16", f"the loss of a batch is {once:.4g}, of the same examples twice {twice:.4g}", {"ratio": 2.0})


def order_matters(evidence: Evidence) -> Finding | None:
    """The loss of the same outputs with the same targets changes with the order of the examples.

    Pairs, triplets and halves of a batch may belong together, and neighbours may be compared: an order that keeps all
    this is none of those that must not matter. Nor does it say anything where examples come in the same order always.
    """
    firsts = [
        next((event.rows for event in events if isinstance(event, Batch)), ())
        for events in between(evidence.run.recording.events, "epoch")
    ]
    if len(set(firsts)) < 2:
        raise NotAskedError("examples come in the same order in each epoch, which may be meant")
    pair = sample(evidence)
    if pair is None or pair[1].ndim == 0 or len(pair[0]) != len(pair[1]) or len(pair[1]) < 12:
        return None
    count = len(pair[1]) // 12 * 12
    outputs, targets = (part[:count] for part in pair)
    rows, generator = torch.arange(count), torch.Generator().manual_seed(4)
    groups = [rows.reshape(-1, size) for size in (1, 2, 3, 4)] + [rows.reshape(size, -1).T for size in (2, 3, 4)]
    # A group keeps its own order, and the groups change places; groups of halves stay halves.
    shuffled = [group[torch.randperm(len(group), generator=generator)] for group in groups]
    orders = [order.flatten() for order in shuffled[:4]] + [order.T.flatten() for order in shuffled[4:]]
    with torch.no_grad():
        losses = [
            float(evidence.own_loss(outputs[order], targets[order])) for order in (rows, rows, rows.flip(0), *orders)
        ]
    usual, again, *reordered = losses
    limit = SAME_LOSS * abs(usual)
    if not all(map(math.isfinite, losses)) or abs(again - usual) > limit:
        return None
    if any(abs(loss - usual) <= limit for loss in reordered):
        return None
    text = f"the loss of the same outputs and targets is {usual:.4g}, and {reordered[1]:.4g} in another order"
    return Finding(None, text, {"losses": losses}, where="loss", certain=False)
