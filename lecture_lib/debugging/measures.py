"""The numbers that each rung shows, whether it holds or not: its evidence as plain data."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .evidence import Evidence
from .lr_finder import find_lr
from .observed import Examples
from .untouched import untouched

BATCH = 32  # examples that are learnt by heart
STEPS = 150  # of the program's own, on that batch
LEARNT = 0.1  # of the way from the start to the floor may be left


def data(evidence: Evidence) -> dict[str, Any]:
    """Rung 1: sizes, and the share of each class."""
    found: dict[str, Any] = {}
    for name, examples in (("training", evidence.train), ("validation", evidence.val)):
        if examples is not None:
            found[f"{name} examples"] = len(examples.y)
            found[f"{name} classes"] = classes(examples)
    return {key: value for key, value in found.items() if value is not None}


def classes(examples: Examples) -> dict[int, int] | None:
    """How many examples each class has; None for targets that are no classes."""
    if examples.y.is_floating_point():
        return None
    values, counts = examples.y.unique(return_counts=True)
    return {int(value): int(count) for value, count in zip(values, counts, strict=True)} if len(values) <= 100 else None


def baselines(evidence: Evidence) -> dict[str, Any]:
    """Rung 2: the loss at the start beside that of the best constant answer."""
    return {"first loss": evidence.run.before, "loss of the best constant answer": evidence.constant_loss}


def one_batch(evidence: Evidence) -> dict[str, Any]:
    """Rung 3: whether one batch of mixed classes is learnt by heart, against the attainable floor."""
    train, program = evidence.train, evidence.program
    if train is None or program.loss_fn is None or evidence.run.error is not None:
        return {}
    batch = mixed_batch(train)
    found: dict[str, Any] = {}
    first = classes(train.part(slice(0, train.batch_size)))
    if first is not None and len(first) == 1 and evidence.spec.task == "classification":
        found["first batch"] = (
            "holds one class only: it can be learnt without the inputs, so a batch of mixed classes was taken"
        )
    floor = attainable(evidence, batch)
    with untouched(program, evidence.seed):
        start = evidence.measure(batch)[0]
        program.train_loader = [(batch.x, batch.y)] * (STEPS // 5)
        for _ in range(5):
            program.run_epoch()
        reached = evidence.measure(batch)[0]
    left = (reached - floor) / max(start - floor, 1e-9)
    return {**found, "start": start, "floor": floor, "reached": reached, "learnt": bool(left < LEARNT)}


def mixed_batch(train: Examples) -> Examples:
    """Examples of as many classes as there are, in turn; of other targets the first ones."""
    rows = torch.arange(min(BATCH, len(train.y)))
    if not train.y.is_floating_point() and train.y.ndim == 1:
        order = train.y.argsort(stable=True)
        starts: dict[int, int] = {}
        turn = []
        for row in order.tolist():
            label = int(train.y[row])
            turn.append((starts.setdefault(label, 0), label, row))
            starts[label] += 1
        rows = torch.tensor([row for _, _, row in sorted(turn)[:BATCH]])
    return train.part(rows)


def attainable(evidence: Evidence, batch: Examples) -> float:
    """The lowest loss that any outputs could have on a batch: smoothing and mixing keep it above 0."""
    outputs = evidence.measure(batch)[2]
    if outputs is None:
        return 0.0
    free: Tensor = outputs.detach().clone().requires_grad_()
    optimizer = torch.optim.Adam([free], lr=0.3)
    lowest = math.inf
    for _ in range(200):
        loss = evidence.own_loss(free, batch.y)
        lowest = min(lowest, float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return lowest


def rates(evidence: Evidence) -> dict[str, Any]:
    """Rung 5: what the finder suggests beside the rate that is used."""
    program = evidence.program
    if program.loss_fn is None or len(program.optimizers) != 1 or evidence.train is None or evidence.run.error:
        return {}
    used = [group["lr"] for group in program.optimizers[0].param_groups]
    with untouched(program, evidence.seed):
        result = find_lr(
            program.model, evidence.train.batches() * 40, program.optimizers[0], evidence.own_loss, steps=60
        )
    return {"used": used, "suggested": result.suggestion, "why": result.reason}


def run(evidence: Evidence) -> dict[str, Any]:
    """Rung 6: the curves."""
    rows = evidence.run.rows
    return {
        "training loss": [row.train_loss for row in rows],
        "validation loss": [row.val_loss for row in rows],
        "validation metric": [row.val_metric for row in rows],
    }


MEASURES = {1: data, 2: baselines, 3: one_batch, 5: rates, 6: run}
