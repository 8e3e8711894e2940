"""Numbers of a recorded script that are not what they should be, where nothing is known but its losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import torch
from torch import Tensor

from ._engine.events import LossCall, Recording, Step
from .faults.finding import Finding

FEWEST_STEPS = 50  # of fewer no loss says whether anything is learnt
FEWEST_EXAMPLES = 100  # of validation
FALLEN = 0.95  # of a constant answer's loss, or of the first losses; above it nothing is learnt
CLASSES = {"cross_entropy", "nll_loss"}
WATCHED = "The script was only watched: no part was replaced. `--climb` replaces them."


def symptoms_of_recording(recording: Recording) -> list[Finding]:
    """The first symptom that the losses of a recording show; none where several losses or optimizers take turns."""
    training = [call for call in recording.of(LossCall) if call.grad and math.isfinite(call.value)]
    training = [call for call in training if call.name != "loss_fn"]
    # In a game of several losses none of them has to fall.
    alone = recording.optimizers == 1 and len({call.name for call in training}) == 1
    if not alone or len(recording.of(Step)) < FEWEST_STEPS or len(training) < 12:
        return []
    values = [call.value for call in training]
    # Means of five, because the loss of a single batch is noisy.
    early, late = fmean(values[:5]), fmean(values[-5:])
    constant = constant_loss(training)
    first = f"the loss is {late:.3g} at the end and {early:.3g} at the start"
    if constant is not None and late > FALLEN * constant:
        look = "Look at a few examples as the model gets them, beside their labels, then at the rate."
        return [_symptom("the training loss is no lower than a constant answer's", f"{first}, {constant:.3g}", look)]
    if constant is None and late > FALLEN * early and early > 0:
        return [_symptom("the loss does not fall", first, "Try smaller and larger rates on a single batch.")]
    return _by_chance(recording.evaluated)


def _symptom(symptom: str, evidence: str, look: str) -> Finding:
    return Finding(None, evidence, {}, False, "", symptom, WATCHED, look)


def constant_loss(training: Sequence[LossCall]) -> float | None:
    """The lowest mean loss of an answer that is the same for all examples; None where it is not known."""
    kept = [call for call in training if isinstance(call.targets, Tensor)]
    usual = all(call.options.get("weight") is None and not call.options.get("label_smoothing") for call in kept)
    usual &= all(call.options.get("reduction", "mean") == "mean" for call in kept)
    if not kept or not usual:
        return None
    name, y = kept[0].name, torch.cat([call.targets.flatten() for call in kept])
    if name in CLASSES and not y.is_floating_point():
        shares = torch.bincount(y[y >= 0]).double()
        shares = shares[shares > 0] / shares.sum()
        return float(-(shares * shares.log()).sum())
    if name == "mse_loss":
        columns = torch.cat([call.targets.reshape(len(call.targets), -1) for call in kept if call.targets.ndim])
        return float(columns.double().var(dim=0, unbiased=False).mean())
    return None


def _by_chance(evaluated: Sequence[tuple[Tensor, Tensor]]) -> list[Finding]:
    """Classes of evaluation that are named no better than by the commonest one."""
    pairs = [(x, y) for x, y in evaluated if x.ndim == 2 and y.shape == x.shape[:1] and not y.is_floating_point()]
    if sum(len(y) for _, y in pairs) < FEWEST_EXAMPLES:
        return []
    right = torch.cat([x.argmax(dim=1) == y for x, y in pairs]).double()
    shares = torch.bincount(torch.cat([y[y >= 0] for _, y in pairs])).double()
    commonest = float(shares.max() / shares.sum())
    if commonest > FALLEN or float(right.mean()) > commonest:
        return []
    numbers = f"in the last evaluation {float(right.mean()):.0%} are right; the commonest class is {commonest:.0%}"
    look = "Training examples are learnt and these are not: look at a few of both beside their labels."
    return [_symptom("validation answers are no better than chance", numbers, look)]
