"""Signs of known faults in inputs, initial weights, activations and settings: a name, should a replacement help."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from .changes import ActivationRecorder, wide_tables
from .difference import Difference
from .replacement import Profile
from .runs import Runs

LARGE, SMALL = 2.5, 0.4  # deviation of a weight matrix, relative to PyTorch's
WIDE = 2.0  # deviation of the first outputs over that of the targets
DEAD = 0.5  # of a layer's units that are 0 for all examples
FLAT = 0.5  # of a layer's entries at which the activation's slope is below a hundredth of its largest
VANISHED = 1e-3  # gradient over weight in the first layers, relative to that of the others
EXPLODED = 30.0  # norm of the first gradient over the loss
FAR = 3.0  # root mean square of inputs that are far from standardised, or one over it
UNEVEN = 10.0  # largest deviation of a feature over the median one
USUAL = {True: (1e-5, 0.03), False: (1e-4, 1.0)}  # rates of adaptive optimizers, and of others


def weights_drawn_otherwise(runs: Runs, profile: Profile) -> Difference | None:
    """A02, A03: weight matrices far larger or smaller than PyTorch draws them."""
    # PyTorch draws embeddings from N(0, 1), whatever their size.
    embeddings = {id(m.weight) for m in profile.program.model.modules() if isinstance(m, nn.Embedding)}
    for name, parameter in profile.program.model.named_parameters():
        if parameter.ndim < 2 or parameter.numel() <= 8 or id(parameter) in embeddings:
            continue
        # PyTorch draws within ± 1 / sqrt(fan-in), and the deviation of that is 1 / sqrt(3 fan-in).
        spread = float(parameter.detach().std()) * math.sqrt(3 * parameter.numel() / len(parameter))
        if not SMALL < spread < LARGE:
            text = f"{name} starts {spread:.2g} times as large as PyTorch would"
            return Difference("initialisation", text, "A02" if spread > 1 else "A03")
    return None


def outputs_wide(runs: Runs, profile: Profile) -> Difference | None:
    """Outputs that start far wider than what they are to be, in a model that looks entries up in wide tables."""
    train = profile.train
    if train is None or not wide_tables(profile.program.model):
        return None
    profile.program.model.eval()
    with torch.no_grad():
        outputs = profile.program.outputs(train.x[:512].to(profile.program.device))
    # Logits that deviate by 3 are sure of themselves, and before training they know nothing.
    wanted = float(train.y.double().std()) if train.y.is_floating_point() else 1.5
    spread = float(outputs.double().std()) if isinstance(outputs, Tensor) else math.nan
    if not spread > WIDE * wanted > 0:
        return None
    return Difference("initialisation", f"outputs start {spread / wanted:.2g} times as wide as what they are to be")


def _activations(profile: Profile) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Name, input and output of each activation for some training examples, before training."""
    if profile.train is None:
        return
    program = profile.program
    program.model.eval()
    with torch.no_grad(), ActivationRecorder() as recorder:
        program.outputs(profile.train.x[:512].to(program.device))
    yield from recorder.calls


def units_dead(runs: Runs, profile: Profile) -> Difference | None:
    """A05: most ReLUs of a layer are 0 for all examples."""
    for name, _, output in _activations(profile):
        if name in ("relu", "threshold") and output.ndim > 1:
            dead = (output == 0).flatten(2).all(dim=2) if output.ndim > 2 else output == 0
            if float(dead.all(dim=0).float().mean()) >= DEAD:
                text = f"{int(dead.all(dim=0).sum())} of {dead.shape[1]} units are 0 for all examples before training"
                return Difference("initialisation", text, "A05")
    return None


def activations_flat(runs: Runs, profile: Profile) -> Difference | None:
    """A06: sigmoids and tanhs sit where their slope is 0."""
    for name, inputs, _ in _activations(profile):
        if name in ("sigmoid", "tanh"):
            # Relative to the largest slope, which is 1/4 for a sigmoid and 1 for a tanh.
            slope = 4 * inputs.sigmoid() * (1 - inputs.sigmoid()) if name == "sigmoid" else 1 - inputs.tanh() ** 2
            share = float((slope < 0.01).float().mean())
            if share >= FLAT:
                text = f"at {share:.0%} of the inputs of a {name} its slope is below a hundredth"
                return Difference("initialisation", text, "A06")
    return None


def gradients_uneven(runs: Runs, profile: Profile) -> Difference | None:
    """A07, A08: the first layers' gradients are next to nothing, or the first gradient is huge."""
    train, own = profile.train, profile.program.loss_fn
    if train is None or own is None:
        return None
    with runs.fresh(0) as (program, _):
        program.model.train()
        x, y = train.x[:128].to(program.device), train.y[:128].to(program.device)
        loss = own(program.outputs(x), y)
        matrices = [p for p in program.model.parameters() if p.requires_grad and p.ndim >= 2]
        grads = torch.autograd.grad(loss, matrices, allow_unused=True)
    sizes = [(float(p.detach().norm()), float(g.norm())) for p, g in zip(matrices, grads, strict=True) if g is not None]
    whole = math.hypot(*(gradient for _, gradient in sizes)) / max(abs(float(loss.detach())), 1e-9)
    if whole > EXPLODED:
        return Difference("layers", f"the first gradient's norm is {whole:.3g} times the loss", "A08")
    updates = [gradient / size for size, gradient in sizes if size]
    if len(updates) >= 4 and max(updates) > 0 and min(updates[: len(updates) // 2]) < VANISHED * max(updates):
        ratio = min(updates[: len(updates) // 2]) / max(updates)
        text = f"relative to their weights the first layers move {ratio:.1g} times as much as the others"
        return Difference("layers", text, "A07")
    return None


def inputs_unscaled(runs: Runs, profile: Profile) -> Difference | None:
    """D01: inputs are large, small or uneven."""
    if profile.train is None or not profile.train.x.is_floating_point() or profile.train.x.ndim < 2:
        return None
    x = profile.train.x.double()
    size, deviations = float(x.square().mean().sqrt()), x.flatten(1).std(dim=0)
    lively = deviations[deviations > 0]
    uneven = float(lively.max() / lively.median()) if x.ndim == 2 and len(lively) else 1.0
    if 1 / FAR < size < FAR and uneven < UNEVEN:
        return None
    text = f"inputs have a root mean square of {size:.3g}, and the largest deviation is {uneven:.3g} times the usual"
    return Difference("inputs", text, "D01")


def targets_unscaled(runs: Runs, profile: Profile) -> Difference | None:
    """D36: numbers to be predicted are large, small, far from 0 or uneven."""
    if profile.train is None or not profile.train.y.is_floating_point() or profile.spec.task != "regression":
        return None
    y = profile.train.y.reshape(len(profile.train.y), -1).double()
    size, deviations = float(y.square().mean(dim=0).sqrt().max()), y.std(dim=0)
    lively = deviations[deviations > 0]
    if not len(lively) or (1 / 30 < size < 30 and float(lively.max() / lively.median()) < 30):
        return None
    text = f"targets have root mean squares up to {size:.3g}, and deviations from {float(lively.min()):.3g} on"
    return Difference("labels", text, "D36")


def rates_unusual(runs: Runs, profile: Profile) -> Difference | None:
    """H01, H02: a rate outside of what is usual for such an optimizer."""
    adaptive = all("betas" in getattr(optimizer, "defaults", {}) for optimizer in profile.program.optimizers)
    low, high = USUAL[adaptive]
    rate = max((rate for group in profile.rates for rate in group), default=0.0)
    if low <= rate <= high or rate == 0:
        return None
    return Difference("optimizer", f"a learning rate of {rate:.2g}", "H01" if rate > high else "H02")


# Causes before what they lead to: of several signs in a part the first gives the name.
SIGNS = (
    weights_drawn_otherwise,
    outputs_wide,
    units_dead,
    activations_flat,
    gradients_uneven,
    inputs_unscaled,
    targets_unscaled,
    rates_unusual,
)
