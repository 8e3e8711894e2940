"""Rungs 1 to 4, by comparison: inputs, initial weights and activations with which training starts badly.

Each is asked only when no identity explains anything, and says something only when a change brings a gain beyond the
spread between seeds (`Trials.gain`). The first thing each asks is cheap: whether there is any sign of it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from .._engine.changes import (
    Seen,
    before_model,
    clipped,
    initialised_anew,
    initialised_well,
    learning_rate_times,
    replacing,
    unit_variance,
)
from .._engine.comparing import both, confirmed_early, room, trials
from .._engine.evidence import Evidence
from .._engine.untouched import untouched
from ..program import Program
from .finding import Finding
from .loop_rules import looked

DEAD = 0.5  # of a layer's units that are 0 for all examples
FLAT = 0.5  # of a layer's entries at which the activation's slope is below a hundredth of its largest
VANISHED = 1e-3  # gradient over weight in the first layers, relative to that of the others
EXPLODED = 30.0  # norm of the gradient at the first steps, relative to the loss
LARGE, SMALL = 3.0, 0.2  # deviation of weights, relative to PyTorch's initialisation


def inputs_unscaled(evidence: Evidence) -> Finding | None:
    """D01: large or uneven inputs; standardised ones learn better."""
    fed = evidence.run.recording.fed[True]
    if not fed or not fed[0].is_floating_point() or not room(evidence, early=True):
        return None
    x = torch.cat([one for one in fed if one.shape[1:] == fed[0].shape[1:]]).double()
    over = [0] if x.ndim == 2 else [0, *range(2, x.ndim)]
    mean, deviation = x.mean(dim=over, keepdim=True), x.std(dim=over, keepdim=True)
    size = float(x.pow(2).mean().sqrt())
    lively = deviation[deviation > 0]
    if not len(lively) or (1 / 3 < size < 3 and float(lively.max() / lively.median()) < 10):
        return None
    shared = x.mean(), x.std()
    if x.ndim == 2 and float(lively.max() / lively.median()) < 10:  # pixels in a row: one scale for all
        mean, deviation = shared
    deviation = torch.where(deviation > 1e-9, deviation, torch.ones_like(deviation))

    def standardised(program: Program) -> Any:
        return before_model(program, lambda given: ((given - mean) / deviation).to(given))

    return confirmed_early(evidence, "D01", f"inputs have a root mean square of {size:.3g}", standardised)


def weights(evidence: Evidence) -> list[tuple[str, float]]:
    """Name and deviation of each weight matrix, relative to PyTorch's initialisation."""
    found = []
    embeddings = {id(m.weight) for m in evidence.program.model.modules() if isinstance(m, nn.Embedding)}
    for name, parameter in evidence.program.model.named_parameters():
        if parameter.ndim >= 2 and id(parameter) not in embeddings and parameter.numel() > 8:
            fan_in = parameter.numel() / len(parameter)
            found.append((name, float(parameter.detach().std()) * math.sqrt(3 * fan_in)))
    return found


def initial_scale_too_large(evidence: Evidence) -> Finding | None:
    """A02: the first loss is far above that of guessing, and of default weights."""
    large = [(name, ratio) for name, ratio in weights(evidence) if ratio > LARGE]
    if not large:
        return None
    first, constant = evidence.run.before, evidence.constant_loss
    name, ratio = max(large, key=lambda one: one[1])
    sign = f"{name} starts {ratio:.3g} times as large as PyTorch would; the first loss is {first:.3g}, {constant:.3g} "
    if first < 1.5 * constant:
        return None
    if not first < 3 * constant:
        return Finding("A02", sign + "by guessing", {"ratio": ratio, "loss": first})
    return confirmed_early(evidence, "A02", sign + "by guessing", initialised_anew)


def initial_scale_too_small(evidence: Evidence) -> Finding | None:
    """A03: weights start far smaller than PyTorch's, and default ones learn better."""
    small = [(name, ratio) for name, ratio in weights(evidence) if ratio < SMALL]
    if not small or not room(evidence, early=True):
        return None
    name, ratio = min(small, key=lambda one: one[1])
    sign = f"{name} starts {ratio:.2g} times as large as PyTorch would"
    return confirmed_early(evidence, "A03", sign, initialised_anew, initialised_well)


def activations(evidence: Evidence, trained: bool) -> list[tuple[str, Tensor, Tensor]]:
    """Name, input and output of each activation, for up to 512 training examples."""
    if evidence.train is None:
        return []
    part = evidence.train.part(slice(0, 512))
    with untouched(evidence.program, evidence.seed) as program:
        if trained:
            for _ in range(trials(evidence).epochs):
                program.run_epoch()
        program.model.eval()
        with torch.no_grad(), Seen() as seen:
            evidence.outputs(part.x)
    return seen.calls


def dead_units(evidence: Evidence) -> Finding | None:
    """A05: most ReLUs of a layer are 0 for all examples, and weights drawn anew learn better."""
    if not room(evidence, early=True):
        return None

    def around_its_mean(function: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return function(x - x.detach().mean(dim=0, keepdim=True))

    lifted = replacing(relu=around_its_mean, relu_=around_its_mean)
    for trained in (False, True):
        for name, _, output in activations(evidence, trained):
            if name not in ("relu", "threshold") or output.ndim < 2:
                continue
            dead = (output == 0).flatten(2).all(dim=2) if output.ndim > 2 else output == 0
            units = dead.all(dim=0)
            share = float(units.float().mean())
            if share >= DEAD:
                when = "after training" if trained else "before training"
                sign = f"{when} {int(units.sum())} of {units.numel()} units are 0 for all examples"
                anew = confirmed_early(evidence, "A05", sign, initialised_anew, initialised_well, lifted)
                if anew:
                    return None if trained and _killed_by_the_rate(evidence, anew) else anew
    return None


def _killed_by_the_rate(evidence: Evidence, anew: Finding) -> bool:
    """Whether units that died on the way stay alive at a smaller rate, which then brings as much: it is the cause."""
    gains = [trials(evidence).gain(learning_rate_times(factor)) for factor in (0.1, 0.01)]
    return any(gain.real and gain.share >= anew.data["gain"] for gain in gains)


def saturated(evidence: Evidence) -> Finding | None:
    """A06: sigmoids and tanhs sit where their slope is 0, and learn when their inputs are made smaller."""
    if not room(evidence, early=True):
        return None

    def centred(function: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        scale = (x.detach() - x.detach().mean()).pow(2).mean().sqrt().clamp(min=1.0)
        return function((x - x.detach().mean(dim=0, keepdim=True)) / scale)

    def scaled(function: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return function(x / x.detach().pow(2).mean().sqrt().clamp(min=1.0))

    softer = [replacing(sigmoid=one, tanh=one) for one in (centred, scaled)]

    for name, given, _ in activations(evidence, False):
        if name in ("relu", "threshold"):
            continue
        slope = 4 * given.sigmoid() * (1 - given.sigmoid()) if name == "sigmoid" else 1 - given.tanh() ** 2
        share = float((slope < 0.01).float().mean())
        if share >= FLAT:
            sign = f"at {share:.0%} of the inputs of a {name} its slope is below a hundredth"
            return confirmed_early(evidence, "A06", sign, initialised_anew, *softer)
    gates = [m for m in evidence.program.model.modules() if isinstance(m, nn.RNNBase)]
    biases = [float(p.detach().abs().max()) for m in gates for n, p in m.named_parameters() if "bias" in n]
    if biases and max(biases) > 4:
        return confirmed_early(evidence, "A06", f"gates start with a bias of {max(biases):.3g}", initialised_anew)
    return None


def relative_updates(evidence: Evidence) -> list[float]:
    """Gradient over weight for each weight matrix, in the model's order, at the start."""
    if evidence.train is None or evidence.program.loss_fn is None:
        return []
    batch = evidence.train.part(slice(0, 128))
    with untouched(evidence.program, evidence.seed) as program:
        program.model.train()
        loss = evidence.own_loss(evidence.outputs(batch.x), batch.y)
        named = [p for p in program.model.parameters() if p.requires_grad and p.ndim >= 2]
        found = torch.autograd.grad(loss, named, allow_unused=True)
    sizes = [(p.detach().norm(), g) for p, g in zip(named, found, strict=True) if g is not None]
    return [float(g.norm() / size) if size else math.inf for size, g in sizes]


def vanishing(evidence: Evidence) -> Finding | None:
    """A07: the first layers hardly move, and do when gradients find a way around."""
    if not room(evidence, early=True):
        return None
    updates = relative_updates(evidence)
    if len(updates) < 4 or updates[-1] == 0 or min(updates[: len(updates) // 2]) > VANISHED * max(updates):
        return None
    ratio = min(updates[: len(updates) // 2]) / max(updates)
    if not math.isfinite(ratio):
        return None

    def around(function: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return x + torch.nn.functional.relu(x)

    def instead(function: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return torch.nn.functional.relu(x)

    sign = f"relative to their weights the first layers move {ratio:.1g} times as much as the others"
    straight = replacing(sigmoid=around, tanh=around, relu=around, relu_=around)
    relus = replacing(sigmoid=instead, tanh=instead)
    return confirmed_early(evidence, "A07", sign, straight, both(unit_variance, relus), both(initialised_well, relus))


def exploding(evidence: Evidence) -> Finding | None:
    """A08: gradients are huge from the first step on, or the run ends in NaN, and clipping mends it."""
    first = [step.norm for step in looked(evidence.run.recording)[:1]]
    broke = evidence.run.recording.broke
    size = max((n for n in first if math.isfinite(n)), default=0.0) / max(evidence.constant_loss, 1e-9)
    burst = broke is not None and (broke.what == "gradient" or (broke.step < 3 and broke.largest < 100))
    huge = size > EXPLODED or burst
    if not huge or not (room(evidence, early=True) or broke):
        return None
    sign = f"the gradient's norm is {max(first, default=math.nan):.3g} at the start"
    return confirmed_early(evidence, "A08", sign, clipped, both(clipped, learning_rate_times(0.1)), unit_variance)
