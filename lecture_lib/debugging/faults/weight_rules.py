"""Rung 4: initial weights that keep a layer from learning."""

from __future__ import annotations

import math

import torch

from .._engine.evidence import Evidence
from .._engine.inspection import held_by
from .._engine.preserve import untouched
from .finding import Finding
from .wiring_rules import shortened

SURE = 10.0  # times the loss of the best constant answer: pretrained weights with a new head reach 6


def sure_before_training(evidence: Evidence) -> Finding | None:
    """The first answers are sure, and wrong."""
    first, guessing = evidence.run.before, max(evidence.constant_loss, math.log(2))
    if evidence.train is None or evidence.train.y.is_floating_point() or not SURE * guessing < first < math.inf:
        return None
    text = f"the loss before training is {first:.3g}, that of the best constant answer {evidence.constant_loss:.3g}"
    return Finding(None, text, {"first": first, "constant": evidence.constant_loss}, False, "initialisation")


def stuck_at_zero(evidence: Evidence) -> Finding | None:
    """Weights begin at 0 and have the gradient 0: each is multiplied by another one that is 0 as well."""
    program = evidence.program
    held = held_by(program.optimizers)
    weights = {
        name: weight
        for name, weight in program.model.named_parameters()
        if weight.ndim > 1 and weight.requires_grad and id(weight) in held and not bool(weight.any())
    }
    if not weights or program.train_loader is None:
        return None
    with untouched(program, evidence.seed):
        before = [parameter.detach().clone() for parameter in program.model.parameters()]
        program.run_epoch()
        moved = any(not torch.equal(p, old) for p, old in zip(program.model.parameters(), before, strict=True))
        with_state = {id(p) for optimizer in program.optimizers for p in optimizer.state}
        stuck = [
            name
            for name, weight in weights.items()
            if not bool(weight.any()) and (weight.grad is not None or id(weight) in with_state)
        ]
    if not stuck or not moved:
        return None
    text = f"{shortened(stuck)}: 0 at the start, and exactly 0 after an epoch, because the gradient is 0 as well"
    return Finding(None, text, {"parameters": stuck}, where="initialisation")
