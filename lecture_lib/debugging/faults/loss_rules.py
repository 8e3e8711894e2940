"""Rung 3: what the loss function gets, and what it does with it."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor

from .._engine.assumptions import NotAskedError, several_optimizers
from .._engine.events import Backward, Batch, Break, LossCall
from .._engine.evidence import Evidence
from .._engine.loss_calls import BINARY, NUMBERS, calls, probabilities
from .._engine.preserve import untouched
from .finding import Finding
from .loss_probes import (
    against_the_labels,
    against_the_loss,
    class_axis,
    pairing,
    score_of_the_label,
    unstable_when_sure,
)
from .loss_symmetries import broadcast, order_matters, summed

LARGE = 1e4  # magnitude of weights from which on a run has diverged, and no expression is to blame
SUDDEN = 10.0  # times a constant answer's loss; one that was larger before it broke had been growing
RULES = 1e3  # times the gradient of another output
FITTING = {
    "classification": {"cross_entropy", "nll_loss", "kl_div", "multi_margin_loss"},
    "sequence": {"cross_entropy", "nll_loss", "ctc_loss"},
    "segmentation": {"cross_entropy", "nll_loss", "binary_cross_entropy_with_logits", "binary_cross_entropy"},
    "multi-label": BINARY,
    "regression": {*NUMBERS, "gaussian_nll_loss", "poisson_nll_loss"},
}


def one_output_rules(evidence: Evidence) -> Finding | None:
    """Of several outputs, each with a target of its own, one makes nearly the whole gradient of what they share."""
    program = evidence.program
    if program.loss_fn is None or program.train_loader is None:
        return None
    with untouched(program, evidence.seed):
        x, targets = program.parts(next(iter(program.train_loader)))
        outputs = program.outputs(x)
        several = isinstance(outputs, tuple | list) and isinstance(targets, tuple | list)
        if not several or len(outputs) != len(targets) or not all(isinstance(part, Tensor) for part in outputs):
            return None
        apart = [part.detach().requires_grad_() for part in outputs]
        received = torch.autograd.grad(program.loss_fn(type(outputs)(apart), targets), apart, allow_unused=True)
        weights = [weight for weight in program.model.parameters() if weight.requires_grad]
        gradients = [
            torch.autograd.grad(part, weights, gradient, retain_graph=True, allow_unused=True)
            for part, gradient in zip(outputs, received, strict=True)
            if gradient is not None and part.requires_grad
        ]
    shared = [number for number in range(len(weights)) if all(each[number] is not None for each in gradients)]
    if len(gradients) < 2 or not shared:
        return None
    sizes = [math.hypot(*(float(each[number].norm()) for number in shared)) for each in gradients]
    if not max(sizes) > RULES * min(sizes) > 0:
        return None
    text = f"in the layers that {len(sizes)} outputs share, the gradient of one is {max(sizes) / min(sizes):.2g} times"
    return Finding(None, f"{text} that of another: they serve that one alone", {"norms": sizes}, False, "loss")


def softmax_twice(evidence: Evidence) -> Finding | None:
    """L01: cross-entropy gets what already is a distribution."""
    losses = calls(evidence, "cross_entropy")
    if not losses or not all(probabilities(call.outputs) for call in losses):
        return None
    classes = losses[0].outputs.shape[1]
    # The cross-entropy of a one-hot distribution that is taken for scores.
    floor = math.log(math.e + classes - 1) - 1
    return Finding(
        "L01",
        f"in {len(losses)} batches the scores were above 0 and added up to 1; with {classes} classes the loss cannot "
        f"fall below {floor:.3f}",
        {"floor": floor},
    )


def sigmoid_twice(evidence: Evidence) -> Finding | None:
    """L02: a loss with logits gets probabilities."""
    losses = calls(evidence, "binary_cross_entropy_with_logits")
    if losses and (text := several_optimizers(evidence.run.recording, evidence.spec)):
        raise NotAskedError(text)
    if not losses or not all(bool(((call.outputs >= 0) & (call.outputs <= 1)).all()) for call in losses):
        return None
    # 0.313 is log(1 + 1/e), the loss of a label with the score 1.
    return Finding("L02", f"in {len(losses)} batches all scores lay between 0 and 1; the loss cannot fall below 0.313")


def nll_of_no_logarithms(evidence: Evidence) -> Finding | None:
    """L03, L04: NLLLoss gets probabilities, or raw scores."""
    losses = calls(evidence, "nll_loss")
    if not losses:
        return None
    if all(probabilities(call.outputs) for call in losses):
        return Finding("L03", "NLLLoss got numbers that add up to 1; their logarithms were wanted")
    if all(_another_axis(call.outputs) for call in losses):
        return Finding("L19", "the exponentials of NLLLoss's input add up to 1 over another axis than that of classes")
    off = [float(call.outputs.double().logsumexp(dim=1).abs().max()) for call in losses if call.outputs.ndim > 1]
    if off and min(off) > 0.01:
        return Finding("L04", f"the exponentials of NLLLoss's input should add up to 1; they are off by {min(off):.2g}")
    return None


def _another_axis(log_probabilities: Tensor) -> bool:
    return any(probabilities(log_probabilities.exp(), dim) for dim in range(log_probabilities.ndim) if dim != 1)


def summed_in_the_step(evidence: Evidence) -> Finding | None:
    """L16: backward begins at the sum of the examples' losses."""
    last: LossCall | None = None
    sums = means = 0
    for event in evidence.run.recording.events:
        if isinstance(event, LossCall) and event.grad:
            last = event
        elif isinstance(event, Backward) and last is not None and not math.isnan(event.value):
            close = abs(event.value - last.total) <= 1e-5 * abs(last.total)
            # A loss that is no scalar has no value, and its total is the sum over examples.
            sums += math.isnan(last.value) and close
            means += not (math.isnan(last.value) and close)
            last = None
    backwards = evidence.run.recording.of(Backward)
    singles = [backward for backward in backwards if backward.losses >= 8 and abs(backward.scale - 1) < 0.01]
    targets = [
        call.targets for call in evidence.run.recording.of(LossCall) if call.grad and isinstance(call.targets, Tensor)
    ]
    if any(labels.ndim and len(labels) > 1 for labels in targets):
        singles = []  # sums of something else than the examples of a batch, such as the steps of a decoder
    batches = len(evidence.run.recording.of(Batch))
    if len(singles) > 2 and len(backwards) >= 0.9 * batches > 0:
        sums, means = len(singles), 0
    if not sums or means > 0.1 * sums or evidence.spec.couples_samples:
        return None
    return Finding("L16", f"in {sums} steps backward began at the sum of the examples' losses")


def divergence_misused(evidence: Evidence) -> Finding | None:
    """L19: kl_div gets something else than log-probabilities and probabilities, or averages over classes."""
    for call in calls(evidence, "kl_div"):
        total = call.outputs.double().exp().sum(dim=-1)
        if not bool(((total - 1).abs() < 0.01).all()):
            return Finding(
                "L19", f"the first argument holds no log-probabilities: exponentials add up to {total[0]:.3g}"
            )
        target = call.targets.exp() if call.options.get("log_target") else call.targets
        if not probabilities(target.reshape(-1, target.shape[-1]), 1) and target.shape[-1] > 1:
            return Finding("L19", "the second argument holds no probabilities")
        if call.options.get("reduction", "mean") == "mean" and not math.isnan(call.value):
            return Finding("L19", 'reduction="mean" divides by the classes too; "batchmean" is the divergence')
    return None


def unfit(evidence: Evidence) -> Finding | None:
    """L14: the loss is one for another task."""
    fitting = FITTING.get(evidence.spec.task or "")
    names = {call.name for call in evidence.run.recording.of(LossCall) if call.grad and call.name != "loss_fn"}
    if not fitting or not names or names & fitting:
        return None
    several = [call.targets for call in calls(evidence, *BINARY) if isinstance(call.targets, Tensor)]
    if names <= BINARY and any(targets.ndim == 2 and bool((targets.sum(dim=1) != 1).any()) for targets in several):
        return None  # no class for each row, but thresholds of an order, or several labels
    return Finding("L14", f"the task is {evidence.spec.task}, the loss {', '.join(sorted(names))}")


def unstable(evidence: Evidence) -> Finding | None:
    """L20: something is not finite though inputs, targets and weights are, and are of ordinary size."""
    broke = evidence.run.recording.broke
    if broke is None or broke.largest > LARGE or not math.isfinite(broke.largest):
        return None
    if broke.outputs > LARGE and not _at_once(evidence, broke):  # they grew that large on the way
        return None
    if evidence.train is not None and not all(part.isfinite().all() for part in (evidence.train.x, evidence.train.y)):
        return None  # then the data are at fault
    where = "the loss is" if broke.quantity == "loss" else "the loss is finite and its gradient is"
    return Finding(
        "L20",
        f"after {broke.step} steps {where} not finite; the largest weight is {broke.largest:.3g}, the data are finite",
        {"step": broke.step},
    )


def _at_once(evidence: Evidence, broke: Break) -> bool:
    """Whether outputs were ordinary one step before they were not finite, or are not finite without any step."""
    if math.isfinite(broke.outputs):
        return False
    losses = [call.value for call in evidence.run.recording.of(LossCall) if call.grad]
    before = next((number for number, loss in enumerate(losses) if not math.isfinite(loss)), 0)
    if before:
        return max(map(abs, losses[:before])) < SUDDEN * evidence.constant_loss
    if evidence.train is None or not evidence.train.x.is_floating_point():
        return False
    # What only overflows is finite in double precision; 0/0 is not.
    model = copy.deepcopy(evidence.program.model).double().train()
    with untouched(evidence.program, evidence.seed), torch.no_grad():
        outputs = model(evidence.train.part(slice(0, 256)).x.to(evidence.device).double())
    return isinstance(outputs, Tensor) and not bool(outputs.isfinite().all())


LOSS_RULES = (
    softmax_twice,
    sigmoid_twice,
    nll_of_no_logarithms,
    score_of_the_label,
    divergence_misused,
    broadcast,
    summed,
    summed_in_the_step,
    class_axis,
    pairing,
    order_matters,
    against_the_labels,
    against_the_loss,
    unstable,
    unstable_when_sure,
)
