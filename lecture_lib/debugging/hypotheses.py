"""Rungs 1 to 6, by comparison: what training with one thing changed would bring.

Each is asked only when no identity explains anything, and says something only when the change brings a gain beyond
the spread between seeds (`Trials.gain`). The first thing each asks is cheap: whether there is any sign of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from .events import Step
from .evidence import Evidence
from .finding import Finding
from .loop_rules import looked
from .program import Program
from .trials import (
    Change,
    Gain,
    Seen,
    Trials,
    clipped,
    initialised_anew,
    learning_rate_of,
    learning_rate_times,
    replacing,
)

DEAD = 0.5  # of a layer's units that are 0 for all examples
FLAT = 0.5  # of a layer's entries at which the activation's slope is below a hundredth of its largest
VANISHED = 1e-3  # gradient over weight in the first layer, relative to that of the last
EXPLODED = 30.0  # norm of the gradient at the first steps, relative to the loss
LARGE, SMALL = 3.0, 0.2  # deviation of weights, relative to PyTorch's initialisation
FACTORS = (0.1, 0.01, 10.0, 100.0, 1e4, 1e6)  # of the learning rate


def trials(evidence: Evidence) -> Trials:
    """The evidence's trials, made once."""
    if not hasattr(evidence, "_trials"):
        evidence._trials = Trials(evidence)  # type: ignore[attr-defined]
    return evidence._trials  # type: ignore[attr-defined]


def confirmed(evidence: Evidence, fault: str, sign: str, *changes: Change, **options: Any) -> Finding | None:
    """A finding if one of the changes brings a real gain; one seed decides which are tried on all."""
    for change in changes:
        if trials(evidence).worth(change, **options):
            gain = trials(evidence).gain(change, **options)
            if gain.real:
                return Finding(fault, f"{sign}; changed: {gain}", {"gain": gain.share, "spread": gain.spread}, False)
    return None


def room(evidence: Evidence) -> bool:
    """Whether training examples are learnt so badly that a change can bring something."""
    return evidence.train is not None and evidence.program.loss_fn is not None and trials(evidence).room > 0.1


def early_room(evidence: Evidence) -> bool:
    """The same a quarter of the run in."""
    return evidence.train is not None and evidence.program.loss_fn is not None and trials(evidence).early_room > 0.1


def inputs_unscaled(evidence: Evidence) -> Finding | None:
    """D01: large or uneven inputs; standardised ones learn better."""
    fed = evidence.run.recording.fed[True]
    if not fed or not fed[0].is_floating_point() or not early_room(evidence):
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

    return confirmed(
        evidence, "D01", f"inputs have a root mean square of {size:.3g}", standardised, epochs=trials(evidence).early
    )


@contextmanager
def before_model(program: Program, transform: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """The model gets transformed inputs."""

    def hook(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (transform(args[0]), *args[1:])

    handle = program.model.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


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
    return (
        confirmed(evidence, "A02", sign + "by guessing", initialised_anew, epochs=trials(evidence).early)
        if early_room(evidence)
        else None
    )


def initial_scale_too_small(evidence: Evidence) -> Finding | None:
    """A03: weights start far smaller than PyTorch's, and default ones learn better."""
    small = [(name, ratio) for name, ratio in weights(evidence) if ratio < SMALL]
    if not small or not early_room(evidence):
        return None
    name, ratio = min(small, key=lambda one: one[1])
    return confirmed(
        evidence,
        "A03",
        f"{name} starts {ratio:.2g} times as large as PyTorch would",
        initialised_anew,
        epochs=trials(evidence).early,
    )


def activations(evidence: Evidence, trained: bool) -> list[tuple[str, Tensor, Tensor]]:
    """Name, input and output of each activation, for up to 512 training examples."""
    if evidence.train is None:
        return []
    part = evidence.train.part(slice(0, 512))
    from .untouched import untouched

    with untouched(evidence.program, evidence.seed) as program:
        if trained:
            for _ in range(trials(evidence).epochs):
                program.run_epoch()
        program.model.eval()
        with torch.no_grad(), Seen() as seen:
            program.outputs(part.x)
    return seen.calls


def dead_units(evidence: Evidence) -> Finding | None:
    """A05: most ReLUs of a layer are 0 for all examples, and weights drawn anew learn better."""
    if not early_room(evidence):
        return None
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
                anew = confirmed(
                    evidence,
                    "A05",
                    sign,
                    initialised_anew,
                    replacing(relu=leaky, relu_=leaky),
                    epochs=trials(evidence).early,
                )
                if anew:
                    return anew
    return None


def leaky(relu: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """A ReLU that lets a tenth through below 0."""
    return nn.functional.leaky_relu(x, 0.1)


def saturated(evidence: Evidence) -> Finding | None:
    """A06: sigmoids and tanhs sit where their slope is 0, and learn when their inputs are made smaller."""
    if not early_room(evidence):
        return None

    def softened(function: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        scale = (x.detach() - x.detach().mean()).pow(2).mean().sqrt().clamp(min=1.0)
        return function((x - x.detach().mean(dim=0, keepdim=True)) / scale)

    for name, given, _ in activations(evidence, False):
        if name in ("relu", "threshold"):
            continue
        slope = 4 * given.sigmoid() * (1 - given.sigmoid()) if name == "sigmoid" else 1 - given.tanh() ** 2
        share = float((slope < 0.01).float().mean())
        if share >= FLAT:
            sign = f"at {share:.0%} of the inputs of a {name} its slope is below a hundredth"
            return confirmed(
                evidence,
                "A06",
                sign,
                initialised_anew,
                replacing(sigmoid=softened, tanh=softened),
                epochs=trials(evidence).early,
            )
    gates = [m for m in evidence.program.model.modules() if isinstance(m, nn.RNNBase)]
    biases = [float(p.detach().abs().max()) for m in gates for n, p in m.named_parameters() if "bias" in n]
    if biases and max(biases) > 4:
        sign = f"gates start with a bias of {max(biases):.3g}"
        return confirmed(evidence, "A06", sign, initialised_anew, epochs=trials(evidence).early)
    return None


def relative_updates(evidence: Evidence) -> list[float]:
    """Gradient over weight for each weight matrix, in the model's order, at the start."""
    from .untouched import untouched

    if evidence.train is None or evidence.program.loss_fn is None:
        return []
    batch = evidence.train.part(slice(0, 128))
    with untouched(evidence.program, evidence.seed) as program:
        program.model.train()
        loss = evidence.own_loss(program.outputs(batch.x), batch.y)
        named = [p for p in program.model.parameters() if p.requires_grad and p.ndim >= 2]
        found = torch.autograd.grad(loss, named, allow_unused=True)
    sizes = [(p.detach().norm(), g) for p, g in zip(named, found, strict=True) if g is not None]
    return [float(g.norm() / size) if size else math.inf for size, g in sizes]


def vanishing(evidence: Evidence) -> Finding | None:
    """A07: the first layers hardly move, and do when gradients find a way around."""
    if not early_room(evidence):
        return None
    updates = relative_updates(evidence)
    if len(updates) < 4 or updates[-1] == 0 or min(updates[: len(updates) // 2]) > VANISHED * max(updates):
        return None
    ratio = min(updates[: len(updates) // 2]) / max(updates)

    def around(function: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return x + torch.nn.functional.relu(x)

    sign = f"relative to their weights the first layers move {ratio:.1g} times as much as the others"
    straight = replacing(sigmoid=around, tanh=around, relu=around, relu_=around)
    return confirmed(evidence, "A07", sign, straight, unit_variance, epochs=trials(evidence).early)


@contextmanager
def unit_variance(program: Program) -> Iterator[None]:
    """Every affine layer gives outputs of mean 0 and variance 1 over the batch."""

    def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return (output - output.mean()) / (output.std() + 1e-6)

    affine = [m for m in program.model.modules() if isinstance(m, (nn.Linear, nn.Conv2d, nn.Conv1d))]
    handles = [module.register_forward_hook(hook) for module in affine[:-1]]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def exploding(evidence: Evidence) -> Finding | None:
    """A08: gradients are huge from the first step on, or the run ends in NaN, and clipping mends it."""
    first = [step.norm for step in looked(evidence.run.recording)[:3]]
    broke = evidence.run.recording.broke
    size = max((n for n in first if math.isfinite(n)), default=0.0) / max(evidence.constant_loss, 1e-9)
    huge = size > EXPLODED or (broke is not None and broke.what == "gradient")
    if not huge or not (early_room(evidence) or broke):
        return None
    sign = f"the gradient's norm is {max(first, default=math.nan):.3g} at the start"
    return confirmed(
        evidence, "A08", sign, clipped, both(clipped, learning_rate_times(0.1)), epochs=trials(evidence).early
    )


def both(one: Change, other: Change) -> Change:
    """Two changes at once."""

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        with one(program), other(program):
            yield

    return change


def batch_size_unsuitable(evidence: Evidence) -> Finding | None:
    """H03: one example or nearly all of them in a batch, and a usual batch learns better."""
    loader = evidence.program.train_loader
    examples, size = evidence.examples, evidence.train.batch_size if evidence.train else 0
    dataset = getattr(loader, "dataset", None)
    if not examples or dataset is None or not room(evidence) or not (size <= 4 or size >= examples / 3):
        return None

    def usual(program: Program) -> Any:
        generator = torch.Generator().manual_seed(int(torch.randint(2**31, ())))
        program.train_loader = DataLoader(dataset, 32, shuffle=True, generator=generator)
        return clipped_nothing()

    sign = f"a batch has {size} of {examples} examples"
    return confirmed(evidence, "H03", sign, usual, both(usual, learning_rate_times(4.0)))


@contextmanager
def clipped_nothing() -> Iterator[None]:
    """No more than what has been changed."""
    yield


def rate(evidence: Evidence) -> float:
    """The median rate of the run."""
    rates = [step.learning_rates[0] for step in evidence.run.recording.of(Step) if step.learning_rates]
    return median(rates) if rates else math.nan


def learning_rate(evidence: Evidence) -> Finding | None:
    """H01, H02, G15: another rate, tenfold at least, learns better; always clipped steps are too short ones."""
    steps = looked(evidence.run.recording)
    if not room(evidence) or not steps:
        return None
    best: tuple[float, float] | None = None
    for factor in FACTORS:
        loss = trials(evidence).loss(0, learning_rate_times(factor))
        if best is None or loss < best[1]:
            best = (factor, loss)
    assert best is not None
    factor = best[0]
    if not trials(evidence).worth(learning_rate_times(factor)):
        return None
    gain = trials(evidence).gain(learning_rate_times(factor))
    if not gain.real:
        return None
    if factor > 1 and _only_short(evidence, gain):
        return None
    sizes = [step.scale for step in steps if step.residual < 0.02]
    if factor > 1 and sizes and median(sizes) < 0.2 and sum(s < 0.5 for s in sizes) >= 0.9 * len(sizes):
        sign = f"gradients are clipped to {median(sizes):.2g} of their length in every step"
        return Finding("G15", f"{sign}; steps {factor:g} times as long: {gain}", {"gain": gain.share}, False)
    fault = "H01" if factor < 1 else "H02"
    new = rate(evidence) * factor
    return Finding(fault, f"with a rate of {new:.2g} in place of {rate(evidence):.2g}: {gain}", {"rate": new}, False)


def _only_short(evidence: Evidence, gain: Gain) -> bool:
    """Whether the run as it is does as well when it is merely longer: then the rate is not to blame."""
    constant = trials(evidence).constant
    longer = trials(evidence).loss(0, epochs=5 * trials(evidence).epochs)
    return longer < gain.after + 0.05 * constant


def too_short(evidence: Evidence) -> Finding | None:
    """H04: both losses still fall at the end, and a longer run is clearly better in validation."""
    rows = evidence.run.rows
    if len(rows) < 2 or evidence.val is None or not room(evidence):
        return None
    peak = max(step.learning_rates[0] for step in evidence.run.recording.of(Step) if step.learning_rates)
    epochs = 4 * trials(evidence).epochs
    sign = f"after {len(rows)} epochs"
    same = learning_rate_of(peak)
    return confirmed(evidence, "H04", sign, nothing, same, validation=True, longer=epochs)


@contextmanager
def nothing(program: Program) -> Iterator[None]:
    """No change but the number of epochs."""
    yield


def too_much_dropout(evidence: Evidence) -> Finding | None:
    """A18: without dropout the program validates better."""
    if not room(evidence) or evidence.val is None:
        return None

    def off(function: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return x

    names = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout")
    seen: list[float] = []

    def spy(function: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        seen.append(float(args[0] if args else kwargs.get("p", 0.5)))
        return function(x, *args, **kwargs)

    from .untouched import untouched

    with untouched(evidence.program, evidence.seed) as program, replacing(**dict.fromkeys(names, spy))(program):
        program.run_epoch()
    if not seen:
        return None
    change = replacing(**dict.fromkeys(names, off))
    return confirmed(evidence, "A18", f"dropout of up to {max(seen):g}", change, validation=True)


def memorised(evidence: Evidence) -> Finding | None:
    """A21: validation loss turned, and rose beyond what chance does, while training loss went on falling."""
    rows, val = evidence.run.rows, evidence.val
    losses = [row.val_loss for row in rows]
    if len(losses) < 4 or val is None or not all(map(math.isfinite, losses)):
        return None
    best = min(range(len(losses)), key=losses.__getitem__)
    rise = (losses[-1] - losses[best]) / evidence.constant_loss
    falling = rows[-1].train_loss < rows[best].train_loss
    if best > 0.7 * len(losses) or rise < 0.15 or not falling or losses[-1] < 1.2 * losses[best]:
        return None
    others = [trials(evidence).plain(seed, True) for seed in (1, 2)]
    if min(others) < losses[best] * 1.1:
        return None
    return Finding(
        "A21",
        f"validation loss is lowest after epoch {best + 1}, {losses[best]:.3g}, and {losses[-1]:.3g} at the end, while "
        f"training loss falls to {rows[-1].train_loss:.3g}; stopping there saves {losses[-1] - losses[best]:.3g}",
        {"best_epoch": best + 1, "rise": rise},
        False,
    )
